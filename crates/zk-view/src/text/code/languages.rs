/// Syntax of a language, as far as it is coloured.
#[derive(Debug)]
pub(super) struct Language {
    pub(super) names: &'static [&'static str],
    /// Starts of line comments.
    pub(super) line: &'static [&'static str],
    /// Start and end of a block comment.
    pub(super) block: Option<(&'static str, &'static str)>,
    /// String delimiters: longer ones first, which allow several lines.
    pub(super) quotes: &'static [&'static str],
    /// Keywords, separated by blanks.
    pub(super) keywords: &'static str,
}

const C_BLOCK: Option<(&str, &str)> = Some(("/*", "*/"));

/// Known languages by their names in info strings.
pub(super) const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        line: &["//"],
        block: C_BLOCK,
        quotes: &["\""],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in \
            let loop match mod move mut pub ref return self Self static struct super trait true type \
            unsafe use where while",
    },
    Language {
        names: &["python", "py", "python3"],
        line: &["#"],
        block: None,
        quotes: &["\"\"\"", "'''", "\"", "'"],
        keywords: "and as assert async await break class continue def del elif else except False finally \
            for from global if import in is lambda None nonlocal not or pass raise return self True \
            try while with yield",
    },
    Language {
        names: &["javascript", "js", "jsx", "typescript", "ts", "tsx", "mjs"],
        line: &["//"],
        block: C_BLOCK,
        quotes: &["`", "\"", "'"],
        keywords: "as async await break case catch class const continue default delete do else enum export \
            extends false finally for from function if implements import in instanceof interface let \
            new null of private public readonly return static super switch this throw true try type \
            typeof undefined var void while yield",
    },
    Language {
        names: &[
            "c", "h", "cpp", "c++", "cc", "hpp", "java", "kotlin", "kt", "csharp", "cs", "swift", "scala",
        ],
        line: &["//"],
        block: C_BLOCK,
        quotes: &["\"\"\"", "\"", "'"],
        keywords: "abstract auto bool boolean break case catch char class const constexpr continue default \
            delete do double else enum explicit extends extern false final finally float for fun \
            func goto if implements import inline int interface let long namespace new null nullptr \
            operator override package private protected public return short signed sizeof static \
            struct super switch template this throw true try typedef typename union unsigned using \
            val var virtual void volatile when while",
    },
    Language {
        names: &["go", "golang"],
        line: &["//"],
        block: C_BLOCK,
        quotes: &["`", "\"", "'"],
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if \
            import interface map nil package range return select struct switch true type var",
    },
    Language {
        names: &["bash", "sh", "shell", "zsh", "fish", "console"],
        line: &["#"],
        block: None,
        quotes: &["\"", "'"],
        keywords: "case do done elif else esac export fi for function if in local return set then unset \
            while",
    },
    Language {
        names: &["toml", "yaml", "yml", "ini", "dockerfile", "make", "makefile", "cmake", "nix"],
        line: &["#"],
        block: None,
        quotes: &["\"\"\"", "\"", "'"],
        keywords: "true false null FROM RUN COPY ENV CMD ENTRYPOINT WORKDIR ARG",
    },
    Language {
        names: &["json", "jsonc", "json5"],
        line: &["//"],
        block: C_BLOCK,
        quotes: &["\""],
        keywords: "true false null",
    },
    Language {
        names: &["sql"],
        line: &["--"],
        block: C_BLOCK,
        quotes: &["'", "\""],
        keywords: "select from where insert into values update set delete create table index join left \
            inner on group order by limit and or not null as SELECT FROM WHERE INSERT INTO VALUES \
            UPDATE SET DELETE CREATE TABLE INDEX JOIN LEFT INNER ON GROUP ORDER BY LIMIT AND OR NOT \
            NULL AS",
    },
    Language {
        names: &["lua", "haskell", "hs"],
        line: &["--"],
        block: None,
        quotes: &["\"", "'"],
        keywords: "and break case class data do else elseif end false for function if import in instance \
            let local module nil not of or repeat return then true type until where while",
    },
    Language {
        names: &["ruby", "rb", "elixir", "ex", "perl", "r"],
        line: &["#"],
        block: None,
        quotes: &["\"", "'"],
        keywords: "and begin case class def defmodule do else elsif end false fn for function if in module \
            my next nil not or rescue return self sub then true unless until use when while yield",
    },
    Language {
        names: &["html", "xml", "svg", "vue"],
        line: &[],
        block: Some(("<!--", "-->")),
        quotes: &["\"", "'"],
        keywords: "",
    },
    Language {
        names: &["css", "scss", "less"],
        line: &[],
        block: C_BLOCK,
        quotes: &["\"", "'"],
        keywords: "",
    },
];
