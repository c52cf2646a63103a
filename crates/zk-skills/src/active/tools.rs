//! Tools for skills: use one, read its files, run its scripts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use zk_core::model::{
    Approved, Concurrency, Display, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec,
};
use zk_core::service::{
    CallPlace, Exec, ExecRequest, Exit, HostFiles, HostRead, OutputStream, Overflow, Tool, ToolCx, Trust,
    TurnEnv, shell_word,
};

use crate::active::skills::{Skills, check_approval};
use crate::events::ActivatedBy;
use crate::skill::{Bundle, Skill, SkillSource};

/// Names of the tools.
pub const NAMES: [&str; 3] = ["skills_read", "skills_run_script", "skills_use"];

/// Maximum number of bytes of a file in one result.
const MAX_READ_BYTES: usize = 48 * 1024;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: usize = 4 << 20;

/// Maximum number of bytes of a script's output in a result.
const MAX_OUTPUT_BYTES: usize = 32 * 1024;

/// Default and longest time limit of a script.
const SCRIPT_TIME_LIMITS: [Duration; 2] = [Duration::from_secs(120), Duration::from_secs(600)];

pub(crate) fn skill_tools(skills: &Skills) -> [(&'static str, Arc<dyn Tool>); 3] {
    [
        ("skills_read", Arc::new(ReadResource::new(skills.clone()))),
        ("skills_run_script", Arc::new(RunScript::new(skills.clone()))),
        ("skills_use", Arc::new(UseSkill::new(skills.clone()))),
    ]
}

struct UseSkill {
    skills: Skills,
    spec: Arc<ToolSpec>,
}

#[derive(Deserialize)]
struct UseArgs {
    skill: String,
    #[serde(default)]
    arguments: String,
}

impl UseSkill {
    fn new(skills: Skills) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "skill": { "type": "string", "description": "Its name, from available_skills" },
                "arguments": { "type": "string", "description": "What the skill asks for, if anything" },
            },
            "required": ["skill"],
        });
        let about = "Take a skill into use: gives its instructions. They hold until the task is done.";
        Self { skills, spec: ToolSpec::new("skills_use", about, schema) }
    }
}

#[async_trait]
impl Tool for UseSkill {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: UseArgs = call.parse()?;
        let name = args.skill.trim();
        let given = self.skills.activate(name, &args.arguments, ActivatedBy::Model, cx).await?;
        let shown = Display::Line { text: format!("skill {name} is in use") };
        let text =
            given.unwrap_or_else(|| format!("The skill {name} is in use; its text is above, unchanged."));
        Ok(ToolOutput::text(text).with_display(shown))
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Resources(vec!["skills".to_owned()])
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        // Commands in a skill's text are separate calls, which pass the gates themselves.
        Effects::none()
    }

    fn starts_calls(&self) -> bool {
        true
    }

    fn summary(&self, args: &Value) -> String {
        format!("use skill {}", text(args, "skill"))
    }
}

struct ReadResource {
    skills: Skills,
    spec: Arc<ToolSpec>,
}

#[derive(Deserialize)]
struct ReadArgs {
    skill: String,
    path: String,
    #[serde(default)]
    offset: Option<usize>,
    #[serde(default)]
    limit: Option<usize>,
}

impl ReadResource {
    fn new(skills: Skills) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "skill": { "type": "string" },
                "path": { "type": "string", "description": "Relative to the skill's directory" },
                "offset": { "type": "integer", "minimum": 1, "description": "First line, from 1" },
                "limit": { "type": "integer", "minimum": 1, "description": "Number of lines" },
            },
            "required": ["skill", "path"],
        });
        let about = "Read a text file of a skill in use.";
        Self { skills, spec: ToolSpec::new("skills_read", about, schema) }
    }
}

#[async_trait]
impl Tool for ReadResource {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: ReadArgs = call.parse()?;
        let skill = self.skills.in_use(&args.skill, &cx.cx)?;
        if let Some(served) = &skill.served {
            let text = served.text(&args.path, &cx.cx).await?;
            return Ok(ToolOutput::text(lines(&text, args.offset.unwrap_or(1), args.limit)));
        }
        let (files, trust, project) = (host_files(cx)?, cx.cx.service::<dyn Trust>(), self.skills.project());
        let read = tokio::task::spawn_blocking(move || {
            check_approval(&skill, &*files, trust.as_deref(), &project)?;
            let file = resolve_in_skill(&skill, &args.path)?;
            let how = HostRead {
                max_bytes: MAX_FILE_BYTES,
                overflow: Overflow::Cut,
                own_only: skill.source == SkillSource::Project,
                beneath: skill.dir.clone(),
            };
            let read = files.read(&file, &how);
            let bytes = read
                .map_err(|error| ToolError::failed(format!("cannot read `{}`: {error}", args.path)))?
                .bytes;
            Ok(lines(&String::from_utf8_lossy(&bytes), args.offset.unwrap_or(1), args.limit))
        });
        let text: Result<String, ToolError> =
            read.await.map_err(|error| ToolError::failed(error.to_string()))?;
        text.map(ToolOutput::text)
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn summary(&self, args: &Value) -> String {
        format!("read {} of skill {}", text(args, "path"), text(args, "skill"))
    }
}

struct RunScript {
    skills: Skills,
    spec: Arc<ToolSpec>,
}

#[derive(Deserialize)]
struct RunArgs {
    skill: String,
    script: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

impl RunScript {
    fn new(skills: Skills) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "skill": { "type": "string" },
                "script": { "type": "string", "description": "Path relative to the skill's directory" },
                "args": { "type": "array", "items": { "type": "string" } },
                "timeout_ms": { "type": "integer", "minimum": 1, "description": "Default 120000, at most 600000" },
            },
            "required": ["skill", "script"],
        });
        let about = "Run a script of a skill in use, in the working directory.";
        Self { skills, spec: ToolSpec::new("skills_run_script", about, schema) }
    }

    /// Command line of a call, and its skill.
    fn command(&self, args: &RunArgs, cx: &zk_core::kernel::Cx) -> Result<(String, Arc<Skill>), ToolError> {
        let skill = self.skills.in_use(&args.skill, cx)?;
        let script = resolve_in_skill(&skill, &args.script)?;
        let mut words: Vec<String> = interpreter(&script).into_iter().map(str::to_owned).collect();
        words.push(script.to_string_lossy().into_owned());
        words.extend(args.args.iter().cloned());
        Ok((words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" "), skill))
    }
}

#[async_trait]
impl Tool for RunScript {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: RunArgs = call.parse()?;
        let (command, skill) = self.command(&args, &cx.cx)?;
        if Effects::executes(&*command) != *call.effects() {
            return Err(ToolError::failed("the skill changed while the call waited; call again"));
        }
        let exec =
            cx.cx.service::<dyn Exec>().ok_or_else(|| ToolError::failed("nothing here runs commands"))?;
        let (files, trust, project) = (host_files(cx)?, cx.cx.service::<dyn Trust>(), self.skills.project());
        let checked = skill.clone();
        let check = move || check_approval(&checked, &*files, trust.as_deref(), &project);
        tokio::task::spawn_blocking(check).await.map_err(|error| ToolError::failed(error.to_string()))??;
        let timeout =
            args.timeout_ms.map_or(SCRIPT_TIME_LIMITS[0], Duration::from_millis).min(SCRIPT_TIME_LIMITS[1]);
        let given = cx.cx.service::<TurnEnv>().unwrap_or_default();
        let mut request = ExecRequest::shell(&command, cx.cwd.clone());
        request.env = given.0.iter().map(|(name, value)| (name.into(), value.into())).collect();
        if let Some(dir) = &skill.dir {
            request.env.insert("ZK_SKILL_DIR".into(), dir.into());
            request.env.insert("CLAUDE_SKILL_DIR".into(), dir.into());
        }
        let of_bundle = skill.bundle.iter().flat_map(|place| &place.variables);
        request.env.extend(of_bundle.map(|(name, value)| (name.into(), value.into())));
        request.timeout = Some(timeout);
        let mut output = Tail::default();
        let progress = cx.progress.clone();
        let mut sink = |_: OutputStream, bytes: &[u8]| {
            output.add(bytes);
            progress.show(&String::from_utf8_lossy(bytes));
        };
        let ran = exec.run(request, &mut sink, cx.cx.stop_token()).await;
        let ran = ran.map_err(|error| ToolError::failed(error.to_string()))?;
        let text = output.text();
        let failed = |kind, note: String| Err(ToolError::new(kind, format!("{text}{note}")));
        match ran.exit {
            Exit::Code(0) if text.is_empty() => Ok(ToolOutput::text("(no output)")),
            Exit::Code(0) => Ok(ToolOutput::text(text)),
            Exit::Code(code) => failed(ToolErrorKind::Failed, format!("\n(exit {code})")),
            Exit::Signal(signal) => failed(ToolErrorKind::Failed, format!("\n(killed by signal {signal})")),
            Exit::TimedOut => failed(
                ToolErrorKind::TimedOut,
                format!("\n(took longer than {} ms and was ended)", timeout.as_millis()),
            ),
            Exit::Stopped => failed(ToolErrorKind::Aborted, "\n(stopped with the run)".to_owned()),
        }
    }

    fn effects(&self, args: &Value, place: &CallPlace) -> Effects {
        let Ok(args) = RunArgs::deserialize(args) else { return Effects::Unknown };
        match self.command(&args, &place.cx) {
            Ok((command, _)) => Effects::executes(command),
            // The call will fail and run nothing.
            Err(_) => Effects::none(),
        }
    }

    async fn preview(&self, args: &Value, place: &CallPlace) -> Option<Display> {
        let args = RunArgs::deserialize(args).ok()?;
        let skill = self.skills.in_use(&args.skill, &place.cx).ok()?;
        let script = resolve_in_skill(&skill, &args.script).ok()?;
        let files = place.cx.service::<dyn HostFiles>()?;
        let how = HostRead { beneath: skill.dir.clone(), ..HostRead::whole(MAX_READ_BYTES) };
        let read = tokio::task::spawn_blocking(move || files.read(&script, &how)).await.ok()?.ok()?;
        let text = String::from_utf8_lossy(&read.bytes).into_owned();
        Some(Display::Lines { lines: text.lines().map(str::to_owned).collect() })
    }

    fn summary(&self, args: &Value) -> String {
        let rest = args.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
        let rest: Vec<&str> = rest.iter().filter_map(Value::as_str).collect();
        let call =
            format!("run {} of skill {} {}", text(args, "script"), text(args, "skill"), rest.join(" "));
        call.trim_end().to_owned()
    }

    fn failure_cancels_siblings(&self) -> bool {
        true
    }
}

/// Resolves the path of a skill's file; fails for paths outside of the skill and for files that its approval
/// does not cover.
fn resolve_in_skill(skill: &Skill, path: &str) -> Result<PathBuf, ToolError> {
    let Some(dir) = &skill.dir else {
        return Err(ToolError::new(
            ToolErrorKind::NotFound,
            format!("the skill `{}` has no files", skill.name()),
        ));
    };
    let given = Path::new(path);
    let joined = dir.join(given.strip_prefix(dir).unwrap_or(given));
    let real = joined.canonicalize().map_err(|error| {
        ToolError::new(ToolErrorKind::NotFound, format!("`{path}` of the skill `{}`: {error}", skill.name()))
    })?;
    let denied = |why: &str| {
        let text = format!("`{path}` is not {why} the skill `{}`", skill.name());
        ToolError::new(ToolErrorKind::Denied, text)
    };
    if !real.starts_with(dir) {
        return Err(denied("in"));
    }
    if real.is_dir() {
        return Err(denied("a file of"));
    }
    let bundle = Bundle::of(skill).map_err(|error| ToolError::failed(error.to_string()))?;
    if !bundle.contains(&real) {
        return Err(denied(
            "one of the files (hidden directories, `node_modules` and deep ones are left out) of",
        ));
    }
    Ok(real)
}

fn host_files(cx: &ToolCx) -> Result<Arc<dyn HostFiles>, ToolError> {
    cx.cx.service::<dyn HostFiles>().ok_or_else(|| ToolError::failed("nothing here reads files"))
}

/// Lines of a text from the `offset`th on, with a note about omitted lines.
fn lines(text: &str, offset: usize, limit: Option<usize>) -> String {
    let total = text.lines().count();
    let mut out = String::new();
    let mut shown = 0;
    for line in text.lines().skip(offset.max(1) - 1).take(limit.unwrap_or(usize::MAX)) {
        if !out.is_empty() && out.len() + line.len() > MAX_READ_BYTES {
            break;
        }
        out.extend(line.chars().take(MAX_READ_BYTES));
        out.push('\n');
        shown += 1;
    }
    let last = offset.max(1) - 1 + shown;
    if last < total {
        out.push_str(&format!("(lines {} to {last} of {total}; offset reads on)", offset.max(1)));
    }
    if out.is_empty() { "(nothing)".to_owned() } else { out }
}

/// Interpreter for a script that is not executable.
fn interpreter(script: &Path) -> Option<&'static str> {
    use std::os::unix::fs::PermissionsExt;
    let is_executable = script.metadata().is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
    if is_executable {
        return None;
    }
    match script.extension()?.to_str()? {
        "py" => Some("python3"),
        "sh" | "bash" => Some("bash"),
        "js" | "mjs" | "cjs" => Some("node"),
        "rb" => Some("ruby"),
        "pl" => Some("perl"),
        _ => None,
    }
}

/// Buffer of an output's end.
#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
    dropped: bool,
}

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * MAX_OUTPUT_BYTES {
            self.drop_excess();
        }
    }

    fn drop_excess(&mut self) {
        let too_much = self.bytes.len().saturating_sub(MAX_OUTPUT_BYTES);
        if too_much > 0 {
            self.bytes.drain(..too_much);
            self.dropped = true;
        }
    }

    fn text(&mut self) -> String {
        self.drop_excess();
        let text = String::from_utf8_lossy(&self.bytes).trim_end().to_owned();
        if self.dropped { format!("(the beginning is left out)\n{text}") } else { text }
    }
}

fn text<'a>(args: &'a Value, key: &str) -> &'a str {
    args.get(key).and_then(Value::as_str).unwrap_or("?")
}
