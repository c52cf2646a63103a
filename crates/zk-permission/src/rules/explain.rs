use super::host::HostPattern;
use super::pattern::PatternWord;
use super::{Access, CommandPattern, Decision, ProjectCode, Rule, Subject};
use crate::shell::{quote, quote_all};

/// Explanation of a rule's matches, by examples that match and examples that do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Match of the rule, described in one sentence.
    pub says: String,
    /// Calls that it matches.
    pub matches: Vec<String>,
    /// Calls that resemble those and are not matched, each with why.
    pub misses: Vec<(String, String)>,
}

impl Rule {
    /// Explains the rule by matching and non-matching examples.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        match &self.subject {
            Subject::Command(pattern) => explain_command(pattern, self.decision),
            Subject::Exact(text) => Explanation {
                says: format!("{}: exactly this text, byte by byte", self.decision),
                matches: vec![text.clone()],
                misses: vec![
                    (format!("{text} "), "one more blank is another text".to_owned()),
                    (format!("{text} && true"), "it is a longer text".to_owned()),
                ],
            },
            Subject::Path { access, .. } => explain_path(*access, self),
            Subject::Below(access, _) => explain_path(*access, self),
            Subject::Host(pattern) => explain_host(pattern, self.decision),
            Subject::Code(code) => explain_project_code(code),
            Subject::Tools(names) => Explanation {
                says: "allow: every call of these tools, whatever the arguments are".to_owned(),
                matches: names.clone(),
                misses: vec![(
                    "another tool, also one that the server gets later".to_owned(),
                    "it was not there to be allowed".to_owned(),
                )],
            },
            Subject::Tool(name) => Explanation {
                says: format!("{}: every call of the tools named {}", self.decision, name.glob()),
                matches: vec![name.glob().glob().replace('*', "x")],
                misses: vec![(
                    format!("not-{}", name.glob().glob().replace('*', "x")),
                    "another name".to_owned(),
                )],
            },
        }
    }
}

fn explain_project_code(code: &ProjectCode) -> Explanation {
    let command = code.command();
    let mut misses = vec![
        (format!("{command} && true"), "it is more than one command".to_owned()),
        (format!("{command} > file"), "it redirects".to_owned()),
        (format!("A=b {command}"), "it sets a variable".to_owned()),
    ];
    let mut matches = vec![command.clone()];
    let longer = format!("{command} --more");
    let says = match &code.bound {
        None => {
            matches.push(longer);
            misses.push((command, "outside of the sandbox it runs the project's code as you".to_owned()));
            "allow: commands that begin with these words, in the sandbox of commands alone"
        }
        Some(bound) => {
            misses.push((longer, "it has one more argument".to_owned()));
            let files = code.manifest_names().join(", ");
            misses.push((
                command,
                format!("in another directory than {}, or after {files} changed", bound.directory.display()),
            ));
            "allow: exactly this command in one directory, as long as the files that say what it runs stay"
        }
    };
    Explanation { says: says.to_owned(), matches, misses }
}

fn explain_command(pattern: &CommandPattern, decision: Decision) -> Explanation {
    let sample: Vec<String> = pattern
        .words
        .iter()
        .enumerate()
        .map(|(at, word)| match word {
            PatternWord::Exact(word) => word.clone(),
            PatternWord::Any if at == 0 => "program".to_owned(),
            PatternWord::Any => "one".to_owned(),
        })
        .chain(pattern.words.is_empty().then(|| "program".to_owned()))
        .collect();
    let mut longer = sample.clone();
    longer.push("--more".to_owned());
    let text = quote_all(&sample);
    let mut explanation = Explanation {
        says: match (pattern.has_rest, pattern.words.is_empty()) {
            (_, true) => format!("{decision}: every command"),
            (true, false) => format!("{decision}: commands that begin with these words, whatever follows"),
            (false, false) => format!("{decision}: commands with exactly these words"),
        },
        matches: vec![text.clone()],
        misses: Vec::new(),
    };
    if pattern.has_rest {
        explanation.matches.push(quote_all(&longer));
    } else {
        explanation.misses.push((quote_all(&longer), "it has one more argument".to_owned()));
    }
    if let Some((_, shorter)) = sample.split_last()
        && !shorter.is_empty()
    {
        explanation.misses.push((quote_all(shorter), "an argument is missing".to_owned()));
    }
    if decision == Decision::Allow {
        explanation
            .misses
            .push((format!("{text} && rm x"), "every other part is judged by itself".to_owned()));
        explanation.misses.push((format!("{text} > file"), "the redirection writes a file".to_owned()));
        if let Some(program) = pattern.program().filter(|program| !program.contains('/')) {
            let mut elsewhere = sample;
            if let Some(first) = elsewhere.first_mut() {
                *first = format!("./{}", quote(program));
            }
            explanation.misses.push((elsewhere.join(" "), "it is another program of that name".to_owned()));
        }
    }
    explanation
}

fn explain_path(access: Access, rule: &Rule) -> Explanation {
    let (verb, other) = match access {
        Access::Read => ("reads", "writes"),
        Access::Write => ("writes", "reads"),
    };
    let pattern = rule.text.split_once('(').map_or("", |(_, pattern)| pattern.trim_end_matches(')'));
    let sample = pattern.replace("**", "a/b").replace('*', "name").replace('?', "x");
    let mut explanation = Explanation {
        says: format!("{}: a call that {verb} files matching `{pattern}`", rule.decision),
        matches: vec![format!("a tool that {verb} {sample}")],
        misses: vec![(
            format!("a tool that {other} {sample}"),
            format!("it {other}, the rule is about what {verb}"),
        )],
    };
    if rule.decision == Decision::Allow {
        let why = "what a program does with files is not known; only files that a tool or a redirection names count";
        explanation.misses.push((format!("python script.py {sample}"), why.to_owned()));
    }
    explanation
}

fn explain_host(pattern: &HostPattern, decision: Decision) -> Explanation {
    let (matched, other) = pattern.examples();
    let restricts = decision != Decision::Allow;
    let mut explanation = Explanation {
        says: format!("{decision}: a call that connects to {pattern}"),
        matches: vec![matched.clone()],
        misses: other.into_iter().map(|(host, why)| (host, why.to_owned())).collect(),
    };
    if let Some(parent) = pattern.parent().filter(|_| !pattern.has_port()) {
        if restricts {
            explanation.matches.push(parent.to_owned());
        } else {
            explanation.misses.push((parent.to_owned(), "only names below it are meant".to_owned()));
        }
    }
    if !pattern.has_port() {
        let other_port = format!("{matched}:8080");
        if restricts {
            explanation.matches.push(other_port);
        } else {
            explanation.misses.push((other_port, "it is not the usual port; name it in a rule".to_owned()));
        }
    }
    explanation
}
