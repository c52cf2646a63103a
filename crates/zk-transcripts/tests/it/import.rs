use std::path::Path;
use std::sync::Arc;

use zk_core::model::{Block, Role, StopReason};
use zk_core::service::{Entry, EntryKind, Redactor, SessionStore};
use zk_session::{MemoryStore, load_history};
use zk_transcripts::{
    ImportError, PlaceRoots, Transcript, TranscriptFormat, find_places, list_transcripts, store_transcript,
};
use zk_view::{CallState, Content, rebuild};

use crate::support::{file, read};

const CLAUDE: &str = r#"{"type":"queue-operation","operation":"enqueue","timestamp":"2026-03-01T10:00:00.000Z","sessionId":"abc"}
{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"Fix the sum"},"uuid":"u1","timestamp":"2026-03-01T10:00:00.000Z","cwd":"/shop","sessionId":"abc","version":"2.1.0"}
{"parentUuid":"u1","isSidechain":false,"type":"assistant","message":{"id":"m1","role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"Look first.","signature":"c2ln"}],"stop_reason":"tool_use","usage":{"input_tokens":10,"output_tokens":4,"cache_read_input_tokens":7}},"uuid":"a1","timestamp":"2026-03-01T10:00:01.000Z","sessionId":"abc"}
{"parentUuid":"a1","isSidechain":false,"type":"assistant","message":{"id":"m1","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}],"stop_reason":"tool_use","usage":{"input_tokens":10,"output_tokens":4,"cache_read_input_tokens":7}},"uuid":"a2","timestamp":"2026-03-01T10:00:01.000Z","sessionId":"abc"}
{"parentUuid":"a2","isSidechain":false,"type":"assistant","message":{"id":"m1","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"c2","name":"Task","input":{"description":"Search","prompt":"find it"}}],"stop_reason":"tool_use","usage":{"input_tokens":10,"output_tokens":4,"cache_read_input_tokens":7}},"uuid":"a3","timestamp":"2026-03-01T10:00:01.000Z","sessionId":"abc"}
{"parentUuid":"a3","isSidechain":false,"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"found"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]},"uuid":"r2","timestamp":"2026-03-01T10:00:04.000Z","toolUseResult":{"agentId":"ag1"},"sessionId":"abc"}
{"parentUuid":"a2","isSidechain":false,"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"cart.py","is_error":false}]},"uuid":"r1","timestamp":"2026-03-01T10:00:03.000Z","toolUseResult":{"stdout":"cart.py","stderr":"","interrupted":false},"sessionId":"abc"}
{"parentUuid":"a1","isSidechain":false,"type":"user","message":{"role":"user","content":"left behind"},"uuid":"x1","timestamp":"2026-03-01T10:00:05.000Z","sessionId":"abc"}
{"parentUuid":"r1","isSidechain":false,"type":"assistant","message":{"id":"m2","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"c3","name":"Edit","input":{"file_path":"/shop/cart.py","old_string":"a","new_string":"b"}}],"stop_reason":"tool_use","usage":{"input_tokens":20,"output_tokens":5}},"uuid":"a4","timestamp":"2026-03-01T10:00:06.000Z","sessionId":"abc"}
{"parentUuid":"a4","isSidechain":false,"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c3","content":"ok"}]},"uuid":"r3","timestamp":"2026-03-01T10:00:07.000Z","toolUseResult":{"filePath":"/shop/cart.py","structuredPatch":[{"oldStart":1,"oldLines":1,"newStart":1,"newLines":1,"lines":["-a","+b"]}]},"sessionId":"abc"}
{"parentUuid":"r3","isSidechain":false,"type":"user","isMeta":true,"message":{"role":"user","content":"Caveat: The messages below were generated"},"uuid":"n1","timestamp":"2026-03-01T10:00:08.000Z","sessionId":"abc"}
{"parentUuid":null,"logicalParentUuid":"n1","isSidechain":false,"type":"system","subtype":"compact_boundary","content":"Conversation compacted","compactMetadata":{"trigger":"manual","preTokens":90000},"uuid":"s1","timestamp":"2026-03-01T10:01:00.000Z","sessionId":"abc"}
{"parentUuid":"s1","isSidechain":false,"type":"user","isCompactSummary":true,"message":{"role":"user","content":"The sum was fixed."},"uuid":"s2","timestamp":"2026-03-01T10:01:00.000Z","sessionId":"abc"}
{"parentUuid":"s2","isSidechain":false,"type":"user","message":{"role":"user","content":"And the rest?"},"uuid":"u2","timestamp":"2026-03-01T10:02:00.000Z","sessionId":"abc"}
{"parentUuid":"u2","isSidechain":false,"type":"assistant","message":{"id":"m3","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Nothing is left."}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":3}},"uuid":"a5","timestamp":"2026-03-01T10:02:03.000Z","sessionId":"abc"}
{"type":"ai-title","aiTitle":"The sum of the cart","sessionId":"abc"}
"#;

const CLAUDE_AGENT: &str = r#"{"parentUuid":null,"isSidechain":true,"agentId":"ag1","type":"user","message":{"role":"user","content":"find it"},"uuid":"i1","timestamp":"2026-03-01T10:00:02.000Z","sessionId":"abc"}
{"parentUuid":"i1","isSidechain":true,"agentId":"ag1","attributionAgent":"Explore","type":"assistant","message":{"id":"im","role":"assistant","model":"claude-y","content":[{"type":"text","text":"found in cart.py"}],"stop_reason":"end_turn"},"uuid":"i2","timestamp":"2026-03-01T10:00:03.000Z","sessionId":"abc"}
"#;

const CODEX: &str = r#"{"timestamp":"2026-03-01T10:00:00.000Z","type":"session_meta","payload":{"id":"cx-1","timestamp":"2026-03-01T10:00:00.000Z","cwd":"/shop","cli_version":"0.1","model_provider":"openai"}}
{"timestamp":"2026-03-01T10:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n</environment_context>"}]}}
{"timestamp":"2026-03-01T10:00:00.000Z","type":"turn_context","payload":{"cwd":"/shop","model":"gpt-x"}}
{"timestamp":"2026-03-01T10:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix the sum"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}}
{"timestamp":"2026-03-01T10:00:02.000Z","type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"Look first."}],"encrypted_content":"c2VjcmV0"}}
{"timestamp":"2026-03-01T10:00:02.000Z","type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"ls\"}","call_id":"c1"}}
{"timestamp":"2026-03-01T10:00:02.000Z","type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin Patch\n*** Update File: cart.py\n@@\n-a\n+b\n*** End Patch\n","call_id":"c2"}}
{"timestamp":"2026-03-01T10:00:02.000Z","type":"token_usage_record","payload":{"usage":{"input_tokens":100,"cached_input_tokens":60,"output_tokens":9,"reasoning_output_tokens":3}}}
{"timestamp":"2026-03-01T10:00:03.000Z","type":"event_msg","payload":{"type":"item_completed","item":{"type":"CommandExecution","id":"c1","aggregated_output":"cart.py\n","exit_code":0,"duration":{"secs":1,"nanos":500000000}}}}
{"timestamp":"2026-03-01T10:00:03.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"Output:\ncart.py\n"}}
{"timestamp":"2026-03-01T10:00:03.000Z","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"c2","output":"Done"}}
{"timestamp":"2026-03-01T10:00:04.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Nothing is left."}]}}
"#;

const PI: &str = r#"{"type":"session","version":3,"id":"pi-1","timestamp":"2026-03-01T10:00:00.000Z","cwd":"/shop"}
{"type":"model_change","id":"1","parentId":null,"timestamp":"2026-03-01T10:00:00.000Z","provider":"acme","modelId":"large"}
{"type":"message","id":"2","parentId":"1","timestamp":"2026-03-01T10:00:01.000Z","message":{"role":"user","content":[{"type":"text","text":"Fix the sum"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}}
{"type":"message","id":"3","parentId":"2","timestamp":"2026-03-01T10:00:02.000Z","message":{"role":"assistant","content":[{"type":"thinking","thinking":"Look first.","thinkingSignature":"reasoning_content"},{"type":"toolCall","id":"c1","name":"bash","arguments":{"command":"ls"}},{"type":"toolCall","id":"c2","name":"edit","arguments":{"path":"cart.py"}}],"api":"openai-completions","provider":"acme","model":"large","usage":{"input":5,"output":3,"cacheRead":2,"cacheWrite":0,"cost":{"total":0.25}},"stopReason":"toolUse","timestamp":1}}
{"type":"message","id":"4","parentId":"3","timestamp":"2026-03-01T10:00:03.000Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"bash","content":[{"type":"text","text":"cart.py"}],"isError":false}}
{"type":"message","id":"5","parentId":"4","timestamp":"2026-03-01T10:00:03.000Z","message":{"role":"toolResult","toolCallId":"c2","toolName":"edit","content":[{"type":"text","text":"ok"}],"details":{"diff":" 1 x\n-2 a\n+2 b"},"isError":false}}
{"type":"message","id":"9","parentId":"3","timestamp":"2026-03-01T10:00:04.000Z","message":{"role":"user","content":"left behind"}}
{"type":"message","id":"6","parentId":"5","timestamp":"2026-03-01T10:00:05.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Nothing is left."}],"api":"openai-completions","provider":"acme","model":"large","stopReason":"stop","timestamp":2}}
{"type":"session_info","id":"7","parentId":"6","timestamp":"2026-03-01T10:00:06.000Z","name":"The sum of the cart"}
"#;

const OPENCODE: &str = r#"{
  "info": {"id": "ses_1", "directory": "/shop", "title": "The sum of the cart"},
  "messages": [
    {"info": {"role": "user", "time": {"created": 1772359200000}}, "parts": [
      {"type": "text", "text": "Fix the sum"},
      {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA", "filename": "a.png"}]},
    {"info": {"role": "assistant", "providerID": "acme", "modelID": "large", "time": {"created": 1772359201000, "completed": 1772359203000},
      "tokens": {"input": 5, "output": 3, "reasoning": 1, "cache": {"read": 2, "write": 0}}, "cost": 0.25, "finish": "tool-calls"}, "parts": [
      {"type": "step-start"},
      {"type": "reasoning", "text": "Look first."},
      {"type": "tool", "tool": "bash", "callID": "c1", "state": {"status": "completed", "input": {"command": "ls"}, "output": "cart.py",
        "metadata": {"output": "cart.py", "exit": 0}, "time": {"start": 1, "end": 1501}}},
      {"type": "tool", "tool": "edit", "callID": "c2", "state": {"status": "completed", "input": {"filePath": "cart.py"}, "output": "ok",
        "metadata": {"diff": "Index: cart.py\n===\n--- cart.py\n+++ cart.py\n@@ -1,1 +1,1 @@\n-a\n+b\n"}, "time": {"start": 1, "end": 2}}}]},
    {"info": {"role": "assistant", "providerID": "acme", "modelID": "large", "time": {"created": 1772359204000}, "finish": "stop"}, "parts": [
      {"type": "step-start"}, {"type": "text", "text": "Nothing is left."}]}
  ]
}
"#;

/// The conversation that all the samples hold, and their differences.
fn check_common(transcript: &Transcript) {
    let format = transcript.format;
    let blocks = rebuild(&transcript.entries);
    let mut shown: Vec<String> = Vec::new();
    for block in &blocks {
        if block.agent.is_some() {
            continue;
        }
        match &block.content {
            Content::User { text, attachments, .. } => shown.push(format!("user {text} +{attachments}")),
            Content::Thinking { text, .. } => shown.push(format!("thinking {text}")),
            Content::Call(call) => {
                assert_eq!(call.state, CallState::Done, "{format}: {call:?}");
                shown.push(call.summary.to_string());
            }
            Content::Answer { text, .. } if !text.is_empty() => shown.push(format!("answer {text}")),
            _ => {}
        }
    }
    let images = usize::from(format != TranscriptFormat::Claude);
    assert_eq!(shown[0], format!("user Fix the sum +{images}"), "{format}");
    assert_eq!(shown[1..3], ["thinking Look first.", "$ ls"], "{format}");
    assert!(
        shown.iter().any(|shown| shown.starts_with("edit ") && shown.ends_with("cart.py")),
        "{format}: {shown:?}"
    );
    assert_eq!(shown.last().unwrap(), "answer Nothing is left.", "{format}");
    assert_eq!(transcript.cwd, Path::new("/shop"), "{format}");
    let diff = blocks.iter().find_map(|block| match &block.content {
        Content::Call(call) => {
            call.body.as_ref().filter(|body| matches!(body.form, zk_view::Form::Diff { .. }))
        }
        _ => None,
    });
    let diff = diff.unwrap_or_else(|| panic!("{format}: no diff"));
    let lines: Vec<&str> = diff.lines.iter().map(zk_view::Text::as_str).collect();
    assert!(lines.contains(&"-a") && lines.contains(&"+b"), "{format}: {lines:?}");
    check_pairs(&transcript.entries);
}

/// Each answer with calls is followed by the message with their results.
fn check_pairs(entries: &[Entry]) {
    let messages: Vec<_> = entries.iter().filter_map(|entry| entry.kind.message()).collect();
    for (at, message) in messages.iter().enumerate() {
        let calls: Vec<_> = message.calls().map(|call| &call.id).collect();
        if message.role == Role::Assistant && !calls.is_empty() {
            let results: Vec<_> = messages[at + 1].results().map(|result| &result.call_id).collect();
            assert_eq!(calls, results);
            assert_eq!(message.stop, Some(StopReason::ToolUse));
        }
    }
}

#[test]
fn transcripts_of_all_programs_become_the_same_conversation() {
    let dir = tempfile::tempdir().unwrap();
    for (format, name, text) in [
        (TranscriptFormat::Claude, "claude.jsonl", CLAUDE),
        (TranscriptFormat::Codex, "codex.jsonl", CODEX),
        (TranscriptFormat::Pi, "pi.jsonl", PI),
        (TranscriptFormat::Opencode, "opencode.json", OPENCODE),
    ] {
        let transcript = read(&file(dir.path(), name, text)).unwrap();
        assert_eq!(transcript.format, format);
        check_common(&transcript);
        let again = read(&dir.path().join(name)).unwrap();
        assert_eq!(transcript.session, again.session);
    }
}

#[test]
fn claude_code_has_parallel_results_sub_agents_compactions_and_branches() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "abc.jsonl", CLAUDE);
    file(dir.path(), "abc/subagents/agent-ag1.jsonl", CLAUDE_AGENT);
    let transcript = read(&path).unwrap();
    check_common(&transcript);
    assert_eq!(transcript.title.as_deref(), Some("The sum of the cart"));
    assert_eq!(transcript.notices, ["1 messages of branches that were left are not imported"]);
    let blocks = rebuild(&transcript.entries);
    let at =
        |wanted: &dyn Fn(&Content) -> bool| blocks.iter().position(|block| wanted(&block.content)).unwrap();
    let delegated = at(&|content| matches!(content, Content::Call(call) if call.tool.as_str() == "Task"));
    let inner = blocks.iter().position(|block| block.agent.is_some()).unwrap();
    assert_eq!(inner, delegated + 1);
    assert_eq!(blocks[inner].agent.as_ref().unwrap().name.as_str(), "Explore");
    at(&|content| matches!(content, Content::Answer { text, .. } if text.as_str() == "found in cart.py"));
    at(&|content| matches!(content, Content::Summary { text } if text.as_str() == "The sum was fixed."));
    let ends = blocks.iter().filter_map(|block| match &block.content {
        Content::End(end) => Some((end.turns, end.tokens_read, end.tokens_written)),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [(2, 37, 9), (1, 5, 3)]);
    // A model that goes on is told the summary and what follows, and not what was summed up.
    let sent = load_history(&transcript.entries);
    assert!(sent.messages.iter().any(|message| message.text() == "And the rest?"));
    let thinking = transcript
        .entries
        .iter()
        .filter_map(|entry| entry.kind.message())
        .find_map(|message| message.content.iter().find_map(Block::as_thinking));
    let thinking = thinking.unwrap();
    assert_eq!(thinking.signature.as_deref(), Some("c2ln"));
    assert_eq!(thinking.origin.as_ref().unwrap().to_string(), "anthropic/claude-x");
}

#[test]
fn what_only_another_account_can_read_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("codex.jsonl", CODEX), ("pi.jsonl", PI)] {
        let transcript = read(&file(dir.path(), name, text)).unwrap();
        let thinking = transcript.entries.iter().filter_map(|entry| entry.kind.message());
        let thinking = thinking.flat_map(|message| message.content.iter().filter_map(Block::as_thinking));
        for thinking in thinking {
            assert_eq!((&thinking.signature, &thinking.redacted, &thinking.wire), (&None, &None, &None));
        }
    }
}

#[test]
fn half_lines_garbage_and_missing_results_lose_only_themselves() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text, cut) in [
        ("claude.jsonl", CLAUDE, "\"uuid\":\"r3\""),
        ("codex.jsonl", CODEX, "custom_tool_call_output"),
        ("pi.jsonl", PI, "\"id\":\"6\""),
    ] {
        let end = text.find(cut).unwrap();
        let broken = format!("{}\n\u{0}garbage\n", text.split_at(end).0);
        let transcript = read(&file(dir.path(), name, &broken)).unwrap();
        assert!(transcript.notices.iter().any(|notice| notice.contains("unreadable lines")), "{name}");
        check_pairs(&transcript.entries);
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend(b"{\"type\":\"x\",\"y\":\"\xff\xfe\"}\n[]\n\"text\"\n7\n");
        std::fs::write(dir.path().join(name), bytes).unwrap();
        check_common(&read(&dir.path().join(name)).unwrap());
    }
}

#[test]
fn what_is_no_transcript_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let newer = PI.replace("\"version\":3", "\"version\":9");
    for (name, text, reason) in [
        ("empty.jsonl", "", "no transcript that zk knows"),
        ("text.jsonl", "hello\nworld\n", "no transcript that zk knows"),
        ("other.jsonl", "{\"a\":1}\n", "no transcript that zk knows"),
        ("newer.jsonl", newer.as_str(), "newer version (9"),
        ("void.jsonl", "{\"type\":\"session\",\"version\":3,\"id\":\"x\",\"cwd\":\"/\"}\n", "has no message"),
        ("fake.db", "SQLite format 3\0 and nothing else", "database"),
    ] {
        let error = list_transcripts(&file(dir.path(), name, text), None)
            .and_then(|found| zk_transcripts::read_transcript(&found[0]))
            .unwrap_err();
        assert!(error.to_string().contains(reason) && error.to_string().contains(name), "{name}: {error}");
    }
    assert!(matches!(list_transcripts(&dir.path().join("none"), None), Err(ImportError::Read { .. })));
}

#[test]
fn a_directory_gives_all_its_transcripts_and_places_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    file(at, ".claude/projects/-shop/abc.jsonl", CLAUDE);
    file(at, ".claude/projects/-shop/abc/subagents/agent-ag1.jsonl", CLAUDE_AGENT);
    file(at, ".codex/sessions/2026/03/01/rollout-1.jsonl", CODEX);
    file(at, ".pi/agent/sessions/--shop--/1.jsonl", PI);
    let places = find_places(&PlaceRoots { home: Some(at.to_path_buf()), ..PlaceRoots::default() });
    let found: Vec<_> = places.iter().map(|place| (place.format.name(), place.transcripts)).collect();
    assert_eq!(found, [("claude", 1), ("codex", 1), ("pi", 1)]);
    assert_eq!(list_transcripts(at, None).unwrap().len(), 3);
    assert_eq!(list_transcripts(at, Some(TranscriptFormat::Pi)).unwrap().len(), 1);
    let none = list_transcripts(at, Some(TranscriptFormat::Zk)).unwrap_err();
    assert!(matches!(none, ImportError::NoneIn(_)));
}

#[tokio::test]
async fn an_import_is_told_the_second_time_and_not_doubled() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "pi.jsonl", PI);
    let (store, redactor) = (MemoryStore::new(), Arc::new(Redactor::new()));
    let stored = store_transcript(&store, read(&path).unwrap(), &redactor).await.unwrap();
    let read_back = store.read(&stored.session).await.unwrap();
    assert_eq!((read_back.info.title.as_str(), read_back.info.answered), ("The sum of the cart", true));
    assert!(!read_back.info.interrupted);
    let cost = read_back.entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Message { usage: Some(usage), .. } => usage.cost,
        _ => None,
    });
    assert_eq!(cost.collect::<Vec<_>>(), [0.25]);
    let again = store_transcript(&store, read(&path).unwrap(), &redactor).await.unwrap_err();
    assert!(again.to_string().contains(stored.session.as_str()), "{again}");
    assert_eq!(store.read(&stored.session).await.unwrap().entries.len(), read_back.entries.len());
}
