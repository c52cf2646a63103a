/// Commands with built-in prompts, in the format of files: a file or a plugin with the same name replaces
/// one.
pub const BUILTIN_COMMANDS: [(&str, &str); 2] =
    [("init", include_str!("init.md")), ("review", include_str!("review.md"))];
