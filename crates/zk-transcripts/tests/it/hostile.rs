use base64::Engine as _;
use serde_json::json;
use zk_core::model::{Block, Display, Image, Thinking, ToolCall};
use zk_core::service::EntryKind;
use zk_transcripts::{DocumentFacts, ExportFormat};

use crate::support::{answer, chain, document, facts, run_start, user};

/// Texts that try to leave their place in a page.
const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) [z](data:text/html,<script>alert(1)</script>)",
    "![i](javascript:alert(1)) ![j](https://tracker.example/p.png)",
    "[x](<javascript:alert(1)>) <javascript:alert(1)> <https://ok.example/?a=1&b='\">",
    "[r]: javascript:alert(1)\n\n[r]",
    "&lt;script&gt; &#60;script&#62; &amp;",
    "<!-- --><!doctype html><base href=//evil.example><meta http-equiv=refresh content=0>",
    "```html\n<script>alert(1)</script>\n```\n~~~\"><script>\nx\n~~~",
    "| a | b |\n|---|---|\n| <script> | </td></table><script> |",
    "a\u{202e}b\u{2066}c\u{200b}d\u{1b}[2Je\u{0}f\u{9b}31mg\u{feff}",
    "<<<<a href=\"x\">>>> ]]> <![CDATA[<script>]]> <?php ?>",
    "# </h1><script>\n> </blockquote>\n- </li></ul></main>",
];

/// Tags and attributes of a page, without its own style and script.
fn tags(page: &str) -> Vec<String> {
    let (head, rest) = page.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (body, rest) = rest.rsplit_once("<script>").unwrap();
    let (_, tail) = rest.split_once("</script>").unwrap();
    let text = [head, body, tail].concat();
    text.split('<').skip(1).map(|tag| tag.split_once('>').map_or(tag, |(tag, _)| tag).to_owned()).collect()
}

#[test]
fn nothing_of_a_conversation_becomes_a_part_of_the_page() {
    let mut kinds = Vec::new();
    for (at, text) in HOSTILE.iter().enumerate() {
        let call_id = format!("c{at}");
        let args = json!({ "command": text, "path": text });
        let thinking = Thinking { text: (*text).to_owned(), ..Thinking::default() };
        let both = answer(vec![
            Block::Thinking(thinking),
            Block::text(*text),
            Block::ToolCall(ToolCall::new(&*call_id, format!("t{text}"), args)),
        ]);
        let EntryKind::Message { usage: Some(usage), .. } = &both else { panic!("an answer has a usage") };
        let turn_id = usage.turn_id.clone();
        let display = match at % 3 {
            0 => {
                Display::Diff { path: (*text).to_owned(), diff: format!("@@ -1 +1 @@\n-{text}\n+{text}!\n") }
            }
            1 => Display::Table { head: vec![(*text).to_owned()], rows: vec![vec![(*text).to_owned()]] },
            _ => Display::Markdown { text: (*text).to_owned(), outcome: (*text).to_owned() },
        };
        kinds.push(run_start(&format!("r{at}")));
        kinds.push(user(vec![
            Block::text(*text),
            Block::Image(Image::new("image/svg+xml", "PHN2Zz4=")),
            Block::Image(Image::new("image/png", "x\" onerror=\"alert(1)")),
            Block::Image(Image::new("image/png\" onerror=\"alert(1)", "AAAA")),
        ]));
        kinds.push(both);
        kinds.push(user(vec![Block::result(&*call_id, *text, at % 2 == 0)]));
        kinds.push(EntryKind::CallData {
            turn_id,
            call_id: call_id.as_str().into(),
            summary: Some((*text).to_owned()),
            display: Some(Box::new(display)),
            details: None,
            elapsed_ms: 5,
        });
    }
    let title = HOSTILE.concat();
    let facts = DocumentFacts {
        title: title.clone(),
        cwd: title.into(),
        model: Some(HOSTILE[0].to_owned()),
        parent: Some(HOSTILE[3].to_owned()),
        ..facts()
    };
    let page = document(ExportFormat::Html, facts, &chain(kinds));
    for tag in tags(&page) {
        let name: String =
            tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        let known = [
            "html",
            "head",
            "meta",
            "title",
            "body",
            "a",
            "header",
            "div",
            "input",
            "output",
            "button",
            "main",
            "section",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "dl",
            "dt",
            "dd",
            "article",
            "span",
            "details",
            "summary",
            "small",
            "p",
            "pre",
            "code",
            "ul",
            "ol",
            "li",
            "table",
            "tr",
            "th",
            "td",
            "b",
            "i",
            "u",
            "em",
            "strong",
            "del",
            "ins",
            "blockquote",
            "hr",
            "br",
            "img",
            "footer",
            "nav",
            "kbd",
            "",
        ];
        assert!(known.contains(&name.as_str()) || tag.starts_with("!doctype html"), "{tag}");
        let attributes = tag.split_once(' ').map_or("", |(_, attributes)| attributes).to_ascii_lowercase();
        let unquoted: String = attributes.split('"').step_by(2).collect();
        let is_handler = unquoted.split_whitespace().any(|name| name.starts_with("on"));
        assert!(!is_handler && !unquoted.contains("style"), "{tag}");
        if name == "a" || name == "img" {
            let aims = ["href=\"#", "href=\"http", "href=\"mailto:", "src=\"data:image/png;base64,"];
            assert!(tag.starts_with('/') || aims.iter().any(|aim| attributes.contains(aim)), "{tag}");
        }
    }
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(!page.contains("tracker.example/p.png\">\n<img"));
    for bad in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{1b}', '\u{0}', '\u{9b}', '\u{feff}'] {
        assert!(!page.contains(bad), "{bad:?}");
    }
    assert!(page.contains("of a kind that is not shown") && page.contains("that is damaged"));
}

#[test]
fn the_policy_allows_the_style_and_the_script_of_the_page_alone() {
    let page = document(ExportFormat::Html, facts(), &[]);
    let (_, policy) = page.split_once("Content-Security-Policy\" content=\"").unwrap();
    let (policy, _) = policy.split_once('"').unwrap();
    for (begin, end, key) in [("<style>", "</style>", "style-src"), ("<script>", "</script>", "script-src")] {
        let (_, text) = page.split_once(begin).unwrap();
        let (text, _) = text.split_once(end).unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let digest = base64::engine::general_purpose::STANDARD.encode(digest);
        let allowed = format!("{key} 'sha256-{digest}'");
        assert!(policy.contains(&allowed), "write the new digest {digest} of {key} into its .sha256 file");
    }
    assert!(policy.starts_with("default-src 'none'; img-src data:;"));
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("style=\""));
}
