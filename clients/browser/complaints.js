/** What a page must never say: errors, and what its policy forbids. */
export const complaints = [];

/** `isExpected` is for what the browser says by itself of answers that a test brings about. */
export async function listenTo(page, isExpected = () => false) {
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !isExpected(message.text())) complaints.push(message.text());
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy: ${event.violatedDirective} forbids ${event.blockedURI}`),
    );
  });
}
