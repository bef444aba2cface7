//! Pieces of HTML: escaped text and tables.

use std::fmt::Write as _;

/// Text as it stands between tags or in quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A table whose rows begin with their name. A wide one is scrolled, by the keyboard too.
pub(crate) struct Table {
    caption: String,
    html: String,
}

impl Table {
    pub(crate) fn new(caption: &str, head: &[&str]) -> Self {
        let caption = escape(caption);
        let mut html = format!(
            "<div class=\"scroll\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table>\
             <caption>{caption}</caption>\n<thead><tr>"
        );
        for title in head {
            // A string takes any text, so writing to one does not fail.
            let _ = write!(html, "<th scope=\"col\">{}</th>", escape(title));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        Self { caption, html }
    }

    /// A row of text.
    pub(crate) fn row(&mut self, name: &str, cells: &[String]) {
        let cells: Vec<_> = cells.iter().map(|cell| escape(cell)).collect();
        self.row_of_html(&escape(name), &cells);
    }

    /// A row of what is escaped already.
    pub(crate) fn row_of_html(&mut self, name: &str, cells: &[String]) {
        let _ = write!(self.html, "<tr><th scope=\"row\">{name}</th>");
        for cell in cells {
            let _ = write!(self.html, "<td>{cell}</td>");
        }
        self.html.push_str("</tr>\n");
    }

    pub(crate) fn finish(self) -> String {
        debug_assert!(!self.caption.is_empty(), "a table is named for those who hear it");
        self.html + "</tbody></table></div>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_itself_its_columns_and_its_rows() {
        let mut table = Table::new("Count & more", &["what", "how many"]);
        table.row("<b>", &["1".to_owned()]);
        let html = table.finish();
        assert!(html.contains("<caption>Count &amp; more</caption>"), "{html}");
        assert!(html.contains("<th scope=\"row\">&lt;b&gt;</th><td>1</td>"), "{html}");
    }
}
