//! What each problem code means.

use super::{escape, page::shell, prose};
use crate::code::Code;

/// All of them, for the page at `/docs`.
pub(super) fn section() -> String {
    let row = |code: &Code| {
        format!(
            "<tr id=\"{name}\"><td><a href=\"/problems/{name}\"><code>{name}</code></a></td>\
             <td>{status}</td><td><b>{title}</b>{more}</td></tr>",
            name = code.name(),
            status = code.status().as_u16(),
            title = escape(code.title()),
            more = prose(code.explanation()),
        )
    };
    let rows: String = Code::ALL.iter().map(row).collect();
    format!(
        "<section id=\"problems\"><h2>problems</h2><p>Programs decide by the code; titles and \
         details are for people.</p><table>{rows}</table></section>"
    )
}

/// One of them, for the page that a problem's `type` names.
pub(crate) fn problem_page(code: Code) -> String {
    let retry = match code.is_retryable() {
        true => "The same request may work later.",
        false => "The same request will not work later.",
    };
    let body = format!(
        "<main><h1>{title}</h1><p><code>{name}</code> · {status}</p>{more}<p>{retry}</p>\
         <p><a href=\"/docs#{name}\">All problems</a></p></main>",
        title = escape(code.title()),
        name = code.name(),
        status = code.status(),
        more = prose(code.explanation()),
    );
    shell(code.name(), &body)
}
