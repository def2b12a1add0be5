//! The page at `/docs`.

use std::fmt::Write;

use serde_json::Value;

use super::{STYLE, escape, example, problems, prose};

/// How deep the fields of fields are listed; beyond, the example shows them.
const FIELDS_DEPTH_MAX: usize = 4;

/// Writes to a string, which cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { let _ = write!($out, $($text)*); };
}

/// The whole page.
pub(super) fn render(document: &Value) -> String {
    let info = &document["info"];
    let mut main = String::new();
    let title = escape(text(&info["title"]));
    put!(main, "<h1>{title} <small>{}</small></h1>", escape(text(&info["version"])));
    put!(main, "{}", prose(text(&info["description"])));
    put!(main, "<p>For programs: <a href=\"/openapi.json\">openapi.json</a> (OpenAPI 3.1).</p>");
    let mut nav = String::new();
    for tag in list(&document["tags"]) {
        let name = text(&tag["name"]);
        put!(main, "<section id=\"tag-{0}\"><h2>{0}</h2>", escape(name));
        put!(main, "{}", prose(text(&tag["description"])));
        put!(nav, "<b><a href=\"#tag-{0}\">{0}</a></b><ul>", escape(name));
        for (path, method, operation) in operations(document) {
            if list(&operation["tags"]).any(|tag| tag == name) {
                put!(nav, "{}", nav_line(path, method, operation));
                put!(main, "{}", card(document, path, method, operation));
            }
        }
        put!(nav, "</ul>");
        put!(main, "</section>");
    }
    put!(nav, "<b><a href=\"#problems\">problems</a></b>");
    put!(main, "{}", problems::section());
    shell(&title, &format!("<nav>{nav}</nav><main>{main}</main>"))
}

/// The frame of every page.
pub(super) fn shell(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
}

fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    })
}

fn nav_line(path: &str, method: &str, operation: &Value) -> String {
    let (id, path) = (escape(text(&operation["operationId"])), escape(path));
    format!(
        "<li><a href=\"#{id}\"><span class=\"{method}\">{}</span> {path}</a></li>",
        method.to_uppercase()
    )
}

/// One endpoint.
fn card(document: &Value, path: &str, method: &str, operation: &Value) -> String {
    let mut out = String::new();
    put!(out, "<article id=\"{}\"><h3>", escape(text(&operation["operationId"])));
    put!(out, "<span class=\"method {method}\">{}</span> ", method.to_uppercase());
    put!(out, "<code class=\"path\">{}</code>", escape(path));
    if operation.get("security").is_some() {
        put!(out, " <span class=\"badge\">signed</span>");
    }
    put!(out, "</h3><p class=\"summary\">{}</p>", escape(text(&operation["summary"])));
    let description = text(&operation["description"]);
    if !description.is_empty() {
        put!(out, "{}", prose(description));
    }
    put!(out, "{}", parameters(operation));
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        put!(out, "<h4>Body</h4>{}", shape(document, body));
    }
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        if status == "default" {
            continue;
        }
        let what = escape(text(&response["description"]));
        put!(out, "<h4>Answer <code>{status}</code> {what}</h4>");
        let schema = &response["content"]["application/json"]["schema"];
        if !schema.is_null() {
            let shape = shape(document, schema);
            put!(out, "<details><summary>Example</summary>{shape}</details>");
        }
    }
    let codes = list(&operation["x-codes"]).map(text);
    let links = codes.map(|code| format!("<a href=\"#{0}\"><code>{0}</code></a> ", escape(code)));
    let links: String = links.collect();
    put!(out, "<details><summary>Problems</summary><p class=\"codes\">{links}</p></details>");
    put!(out, "</article>");
    out
}

fn parameters(operation: &Value) -> String {
    let mut rows = String::new();
    for parameter in list(&operation["parameters"]) {
        let schema = &parameter["schema"];
        let default = match &schema["default"] {
            Value::Null => String::new(),
            default => format!(" (default {})", default.to_string().trim_matches('"')),
        };
        put!(
            rows,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}{}</td></tr>",
            escape(text(&parameter["name"])),
            escape(text(&parameter["in"])),
            prose(text(&parameter["description"])),
            escape(&default)
        );
    }
    if rows.is_empty() {
        return rows;
    }
    format!("<h4>Parameters</h4><table>{rows}</table>")
}

/// A schema as its fields and an example.
fn shape(document: &Value, schema: &Value) -> String {
    let mut rows = String::new();
    fields(document, schema, "", 0, &mut rows);
    let example = serde_json::to_string_pretty(&example::of(document, schema)).unwrap_or_default();
    let fields = match rows.is_empty() {
        true => rows,
        false => format!("<details><summary>Fields</summary><table>{rows}</table></details>"),
    };
    format!("<pre>{}</pre>{fields}", escape(&example))
}

fn fields(document: &Value, schema: &Value, prefix: &str, depth: usize, rows: &mut String) {
    if depth > FIELDS_DEPTH_MAX {
        return;
    }
    if let Some(target) = example::reference(document, schema) {
        return fields(document, target, prefix, depth, rows);
    }
    for group in ["oneOf", "anyOf", "allOf"] {
        for part in list(&schema[group]).filter(|part| part["type"] != "null") {
            fields(document, part, prefix, depth, rows);
        }
    }
    if example::kind(schema) == "array" {
        return fields(document, &schema["items"], &format!("{prefix}[]"), depth + 1, rows);
    }
    let required: Vec<&str> = list(&schema["required"]).map(text).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = match prefix {
            "" => name.clone(),
            prefix => format!("{prefix}.{name}"),
        };
        let must = if required.contains(&name.as_str()) { "required" } else { "" };
        let about = example::reference(document, field).unwrap_or(field);
        let about = text(&field["description"]).to_owned() + text(&about["title"]);
        put!(
            rows,
            "<tr><td><code>{}</code></td><td>{must}</td><td>{}</td></tr>",
            escape(&path),
            prose(&about)
        );
        fields(document, field, &path, depth + 1, rows);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
