// The limits that clients can hit, and how often they did.

/** It affects whoever comes, and so it is the gateway's trouble. */
export const NEWCOMERS = "newcomers";

/** Single clients hit it, and some always do. */
export const CLIENTS = "clients";

/** It is the trouble of those alone who ask wrongly. */
export const BAD_REQUESTS = "bad requests";

export const LIMITS = [
  // who hits it, what came of it, the setting, and where it is counted
  [NEWCOMERS, "turned away, since it was full", "max_connections", "refused_connections", { why: "connections" }],
  [NEWCOMERS, "turned away, since memory was short", "max_memory", "refused_connections", { why: "memory" }],
  [NEWCOMERS, "closed before hello, since memory was short", "max_memory", "closes", { reason: "overloaded" }],
  [NEWCOMERS, "had to wait: too many came at once", "handshake_rate", "accept_pauses", { why: "rate" }],
  [NEWCOMERS, "had to wait: too many had not said hello", "max_handshakes", "accept_pauses", { why: "handshakes" }],
  [CLIENTS, "turned away: too many of one address", "max_connections_per_address", "refused_connections", { why: "address" }],
  [CLIENTS, "turned away: too many of one address had not said hello", "max_handshakes", "refused_connections", { why: "handshakes" }],
  [CLIENTS, "closed: no hello in time", "hello_timeout", "closes", { reason: "no_hello" }],
  [CLIENTS, "closed: too slow to read", "write_timeout", "closes", { reason: "too_slow" }],
  [CLIENTS, "answers dropped: too slow to read", "max_unsent_bytes", "answers_dropped"],
  [CLIENTS, "messages refused: too many", "message_rate", "refused_messages", { code: "rate_limited" }],
  [CLIENTS, "closed: too many messages", "message_rate", "closes", { reason: "rate_limited" }],
  [CLIENTS, "messages refused: too many watches", "max_watch", "refused_messages", { code: "too_many_watches" }],
  [CLIENTS, "closed: a frame too large", "max_frame_bytes", "closes", { reason: "too_large" }],
  [CLIENTS, "closed for a newer session of the user", "max_sessions_per_user", "closes", { reason: "replaced" }],
  [CLIENTS, "closed: too many sessions of the user", "max_sessions_per_user", "closes", { reason: "too_many_sessions" }],
  [BAD_REQUESTS, "requests that came too late", "http_timeout", "refused_connections", { why: "late" }],
  [BAD_REQUESTS, "pages of another origin", "allowed_origins", "refused_connections", { why: "origin" }],
  [BAD_REQUESTS, "no PROXY header", "proxy_protocol", "refused_connections", { why: "proxy_header" }],
  [BAD_REQUESTS, "refused for their token", "auth", "auth_refused"],
].map(([who, what, setting, name, labels]) => ({ who, what, setting, name: `presence_${name}_total`, labels }));

const OF_MESSAGES = ["presence_refused_messages_total", "presence_answers_dropped_total"];

/** Whether it counts messages, of which one client can bring about any number, and not connections. */
export const isOfMessages = ({ name }) => OF_MESSAGES.includes(name);

/** How often a limit was hit lately. */
export const hits = (history, { name, labels }) => history.grew(name, labels);
