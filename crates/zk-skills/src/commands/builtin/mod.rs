/// Commands that stand for a prompt of zk's own, as the text of a file: a file or a plugin with the name takes the place.
pub const BUILTIN_COMMANDS: [(&str, &str); 2] =
    [("init", include_str!("init.md")), ("review", include_str!("review.md"))];
