use crate::classifier::TreeWalk;

/// Operands of a read-only program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    /// Files that are read.
    Files,
    /// Maximum number of read files; a further one would be written.
    AtMost(usize),
    /// Text that names no file.
    Text,
    /// A pattern, unless one of these flags gives it, then files.
    PatternThenFiles(&'static [&'static str]),
    /// No operands.
    None,
    /// One operand that begins with `+`, a format.
    Format,
}

/// Row of a read-only program: with these flags it writes nothing but its output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Allowed flags, in the syntax of [`super::flags::scan`].
    pub(super) flags: &'static str,
    pub(super) operands: Operands,
}

/// Behaviour of a program that walks directories with these flags; `None` if it walks none.
pub(super) fn walk(name: &str, scanned: &super::flags::Scanned<'_>) -> Option<TreeWalk> {
    let has = |names: &[&str]| scanned.has(names);
    let walk = |follows_links, reads_contents, skips_hidden| {
        Some(TreeWalk { follows_links, reads_contents, skips_hidden, splits_names: false })
    };
    match name {
        "grep" | "egrep" | "fgrep" => {
            let follows = has(&["R", "dereference-recursive"]);
            let recurses = has(&["r", "recursive"])
                || scanned.values(&["d", "directories"]).any(|value| "recurse".starts_with(value));
            (follows || recurses).then_some(walk(follows, true, false)?)
        }
        "rg" => {
            let skips = !has(&["hidden", "u", "unrestricted", "g", "glob", "iglob"]);
            walk(has(&["L", "follow"]), !has(&["files"]), skips)
        }
        "diff" if has(&["r", "recursive"]) => walk(!has(&["no-dereference"]), true, false),
        "ls" | "dir" | "vdir" if has(&["R", "recursive"]) => walk(has(&["L", "dereference"]), false, false),
        "tree" => walk(has(&["l"]), false, false),
        "du" => walk(has(&["L", "dereference"]), false, false),
        _ => None,
    }
}

pub(super) fn find(name: &str) -> Option<&'static Row> {
    READERS.binary_search_by(|row| row.name.cmp(name)).ok().and_then(|at| READERS.get(at))
}

/// Programs whose flags end at their first operand: later words are files or text.
const FLAGS_FIRST: [&str; 6] = ["basename", "git show-branch", "pathchk", "seq", "tr", "xxd"];

/// Whether a program accepts flags after operands.
pub(super) fn permutes(name: &str) -> bool {
    !FLAGS_FIRST.contains(&name)
}

const fn row(name: &'static str, flags: &'static str, operands: Operands) -> Row {
    Row { name, flags, operands }
}

use Operands::{AtMost, Files, Format, None as NoOperands, PatternThenFiles, Text};

const GREP_FLAGS: &str = "acEFGhHiIlLnoPqrRsTUvwxyzZb ABCmdDe: f< # --count --context= --after-context= \
    --before-context= --color? --colour? --include= --exclude= --exclude-dir= --files-with-matches \
    --files-without-match --fixed-strings --extended-regexp --perl-regexp --basic-regexp --ignore-case \
    --no-ignore-case --invert-match --line-number --line-regexp --word-regexp --max-count= --no-filename \
    --with-filename --no-messages --null --null-data --only-matching --quiet --silent --recursive \
    --dereference-recursive --regexp= --file< --text --binary-files= --byte-offset --initial-tab --label= \
    --line-buffered --directories= --devices=";
const GREP: Operands = PatternThenFiles(&["e", "f", "regexp", "file"]);
const ENCODING: &str = "di w: --decode --ignore-garbage --wrap=";
const LS: &str = "1aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ ITw: --all --almost-all --author --escape --block-size= \
    --ignore-backups --color? --directory --classify? --format= --full-time --group-directories-first --no-group \
    --human-readable --si --dereference --indicator-style= --inode --ignore= --hide= --kibibytes \
    --numeric-uid-gid --literal --quote-name --quoting-style= --reverse --recursive --size --sort= --time= \
    --time-style= --width= --zero";
/// Flags of programs that print checksums, and compare them with a list.
pub(super) const HASH: &str =
    "btzcw --binary --text --tag --zero --check --warn --quiet --status --strict --ignore-missing";
const HEAD: &str = "qvz cn: # --bytes= --lines= --quiet --silent --verbose --zero-terminated";

/// Read-only programs, sorted by name. A missing flag leads to a question; a wrong one would run without.
pub(super) const READERS: &[Row] = &[
    row(":", "", Text),
    row("arch", "", NoOperands),
    row("b2sum", HASH, Files),
    row("base32", ENCODING, AtMost(1)),
    row("base64", ENCODING, AtMost(1)),
    row("basename", "az s: --multiple --suffix= --zero", Text),
    row(
        "basenc",
        "di w: --decode --ignore-garbage --wrap= --base64 --base64url --base32 --base32hex --base16 --base2msbf --base2lsbf \
        --z85",
        AtMost(1),
    ),
    row("bzcat", "s", Files),
    row("cal", "13jy", Text),
    row(
        "cat",
        "AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs \
        --show-nonprinting",
        Files,
    ),
    row("cksum", "z a: --algorithm= --zero --tag --untagged --raw --base64", Files),
    row("cmp", "bls in: --print-bytes --verbose --silent --quiet --bytes= --ignore-initial=", AtMost(2)),
    row(
        "column",
        "txJ scNR: --table --json --separator= --output-separator= --output-width= --table-columns= --table-right= --fillrows \
        --keep-empty-lines",
        Files,
    ),
    row(
        "comm",
        "123z --check-order --nocheck-order --output-delimiter= --total --zero-terminated",
        AtMost(2),
    ),
    row(
        "cut",
        "nsz bcdf: --bytes= --characters= --delimiter= --fields= --complement --only-delimited \
        --output-delimiter= --zero-terminated",
        Files,
    ),
    row(
        "date",
        "uR d: r< I? --utc --universal --rfc-email --date= --reference< --rfc-3339= --iso-8601?",
        Format,
    ),
    row(
        "df",
        "ahHiklPT txB: --all --human-readable --si --inodes --local --portability --print-type --total --type= \
        --exclude-type= --output?",
        Files,
    ),
    row(
        "diff",
        "abBcdeEinNpqrstTuwyZ UCLWxFI: --brief --unified? --context? --side-by-side --recursive --new-file \
        --ignore-case --ignore-all-space --ignore-space-change --ignore-blank-lines --text --color? --width= \
        --exclude= --label= --show-c-function --report-identical-files --minimal --strip-trailing-cr \
        --suppress-common-lines --no-dereference --speed-large-files",
        AtMost(2),
    ),
    row("diff3", "AeEimTxX3 L: --text --show-all --ed --merge --label= --initial-tab --easy-only", AtMost(3)),
    row("dir", LS, Files),
    row("dirname", "z --zero", Text),
    row(
        "du",
        "0abcDhHklLmPsSx dBt: --all --apparent-size --bytes --total --dereference --human-readable --max-depth= \
        --null --summarize --one-file-system --exclude= --si --separate-dirs --threshold= --block-size= --time?",
        Files,
    ),
    row("echo", "neE", Text),
    row("egrep", GREP_FLAGS, GREP),
    row("exit", "", Text),
    row("expand", "i t: --initial --tabs=", Files),
    row("expr", "", Text),
    row("factor", "h", Text),
    row("false", "", Text),
    row("fgrep", GREP_FLAGS, GREP),
    row(
        "file",
        "bdhikLNrv0 eF: --brief --mime --mime-type --mime-encoding --extension --dereference \
        --no-dereference --keep-going --print0 --raw --exclude= --separator=",
        Files,
    ),
    row(
        "fmt",
        "cstu wgp: --crown-margin --split-only --tagged-paragraph --uniform-spacing --width= --goal= --prefix=",
        Files,
    ),
    row("fold", "bs w: --bytes --spaces --width=", Files),
    row("free", "bkmghltw sc: --bytes --kibi --mebi --gibi --human --lohi --total --wide", NoOperands),
    row("getconf", "a", Text),
    row("grep", GREP_FLAGS, GREP),
    row("groups", "", Text),
    row("hd", "bcCdovx n: s: e:", Files),
    row("head", HEAD, Files),
    row("hexdump", "bcCdovx n: s: e: --canonical --length= --skip= --no-squeezing", Files),
    row("hostname", "fsdiI --fqdn --short --domain --ip-address --all-ip-addresses", NoOperands),
    row("iconv", "cls ft: --list --silent --from-code= --to-code=", Files),
    row("id", "agGnruzZ --group --groups --name --real --user --zero", Text),
    row(
        "join",
        "iz aejtov12: --ignore-case --check-order --nocheck-order --header --zero-terminated",
        AtMost(2),
    ),
    row("locale", "acmk --all-locales --charmaps --category-name --keyword-name", Text),
    row("logname", "", NoOperands),
    row("ls", LS, Files),
    row("lsblk", "abdfilmnpStJ o: --all --bytes --fs --list --json --noheadings --output= --paths", Text),
    row("lscpu", "abcxyJp --all --json --hex", NoOperands),
    row("md5sum", HASH, Files),
    row(
        "nl",
        "p bdfhilnsvw: --body-numbering= --number-format= --number-separator= --number-width= \
        --starting-line-number= --line-increment= --no-renumber",
        Files,
    ),
    row(
        "nm",
        "aABCDgnoprsSu --debug-syms --print-file-name --demangle? --dynamic --defined-only --extern-only --numeric-sort \
        --no-sort --print-size --print-armap --reverse-sort --size-sort --undefined-only",
        Files,
    ),
    row("nproc", "--all --ignore=", NoOperands),
    row(
        "numfmt",
        "z d: --from= --to= --field= --format= --suffix= --padding= --round= --grouping --header? --invalid= \
        --from-unit= --to-unit= --delimiter=",
        Text,
    ),
    row(
        "objdump",
        "adDfhpRrsTtxCwz jM: --archive-headers --file-headers --private-headers --section-headers --headers --all-headers \
        --disassemble --disassemble-all --full-contents --reloc --dynamic-reloc --syms --dynamic-syms --demangle? \
        --section= --disassembler-options= --wide --disassemble-zeroes --no-show-raw-insn",
        Files,
    ),
    row(
        "od",
        "abcdfFhilosvx AjNtS: w? --address-radix= --skip-bytes= --read-bytes= --format= --output-duplicates \
        --strings? --width?",
        Files,
    ),
    row("paste", "sz d: --serial --delimiters= --zero-terminated", Files),
    row("pathchk", "pP --portability", Text),
    row(
        "pr",
        "adfFmrtT lowNh: # --across --double-space --form-feed --merge --omit-header --length= --width= --indent=",
        Files,
    ),
    row("printf", "", Text),
    row("pwd", "LP --logical --physical", NoOperands),
    row(
        "readelf",
        "aAdeghIlnrsSuVW px: --all --file-header --program-headers --segments --section-headers --sections --headers \
        --syms --symbols --dyn-syms --notes --relocs --unwind --dynamic --version-info --arch-specific --histogram --wide \
        --hex-dump= --string-dump=",
        Files,
    ),
    row(
        "readlink",
        "efmnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet \
        --silent --verbose --zero",
        Files,
    ),
    row(
        "realpath",
        "eLmPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet \
        --relative-to= --relative-base= --strip --no-symlinks --zero",
        Files,
    ),
    row("rev", "0", Files),
    row(
        "rg",
        "abcFHhiIlLnNopPqsSuUvwx0 ABCdEegMmrtTj: f< # --after-context= --before-context= --context= --block-buffered \
        --byte-offset --case-sensitive --color= --colors= --column --no-column --context-separator= --count \
        --count-matches --crlf --encoding= --engine= --field-context-separator= --field-match-separator= --files \
        --files-with-matches --files-without-match --fixed-strings --follow --glob= --iglob= --heading --no-heading \
        --hidden --no-hidden --ignore-case --invert-match --json --line-buffered --line-number --no-line-number \
        --line-regexp --max-columns= --max-columns-preview --max-count= --max-depth= --maxdepth= --max-filesize= \
        --multiline --multiline-dotall --no-config --no-filename --no-ignore --no-ignore-dot --no-ignore-vcs \
        --no-ignore-parent --no-messages --no-mmap --null --null-data --one-file-system --only-matching --passthru \
        --path-separator= --pcre2 --pretty --quiet --regexp= --replace= --smart-case --sort= --sortr= --stats \
        --text --threads= --trim --type= --type-not= --type-list --unrestricted --vimgrep --with-filename \
        --word-regexp --binary --debug",
        PatternThenFiles(&["e", "f", "regexp", "files", "type-list"]),
    ),
    row(
        "sdiff",
        "aBbdEilstWZ w: --text --ignore-case --ignore-all-space --suppress-common-lines --left-column --width=",
        AtMost(2),
    ),
    row("seq", "w fs: --equal-width --format= --separator=", Text),
    row("sha1sum", HASH, Files),
    row("sha224sum", HASH, Files),
    row("sha256sum", HASH, Files),
    row("sha384sum", HASH, Files),
    row("sha512sum", HASH, Files),
    row("shuf", "ezr in: --echo --zero-terminated --repeat --input-range= --head-count=", Files),
    row("size", "ABdtox --totals --common", Files),
    row("sleep", "", Text),
    row(
        "sort",
        "bdfghiMnRrVcCmsuz ktS: --ignore-leading-blanks --dictionary-order --ignore-case \
        --general-numeric-sort --human-numeric-sort --ignore-nonprinting --month-sort --numeric-sort --random-sort \
        --reverse --version-sort --sort= --check? --merge --stable --unique --zero-terminated --key= \
        --field-separator= --buffer-size= --parallel= --debug",
        Files,
    ),
    row("stat", "fLt c: --file-system --dereference --terse --format= --printf=", Files),
    row("strings", "af nte: --all --bytes= --radix= --encoding= --print-file-name", Files),
    row("sum", "rs --sysv", Files),
    row("tac", "br s: --before --regex --separator=", Files),
    row("tail", HEAD, Files),
    row("tr", "cCdst --complement --delete --squeeze-repeats --truncate-set1", Text),
    row(
        "tree",
        "adfilnpqrsStuUvxXACDFhJQN IPL; --charset= --dirsfirst --du --filelimit= --fromfile --gitignore \
        --ignore-case --inodes --matchdirs --noreport --prune --si --sort= --filesfirst",
        Files,
    ),
    row("true", "", Text),
    row("tsort", "", Files),
    row("tty", "s --silent --quiet", NoOperands),
    row("type", "aftpP", Text),
    row(
        "uname",
        "asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine --processor \
        --hardware-platform --operating-system",
        NoOperands,
    ),
    row("unexpand", "a t: --all --first-only --tabs=", Files),
    row(
        "uniq",
        "cdDiuz fsw: --count --repeated --all-repeated? --group? --skip-fields= --ignore-case --skip-chars= \
        --unique --zero-terminated --check-chars=",
        AtMost(1),
    ),
    row("uptime", "ps --pretty --since", NoOperands),
    row("users", "", NoOperands),
    row("vdir", LS, Files),
    row("wc", "clLmw --bytes --chars --lines --max-line-length --words --total=", Files),
    row("whereis", "bmsul", Text),
    row("which", "as --all", Text),
    row("who", "abdHlmpqrsTtu --all --boot --count --heading --users", NoOperands),
    row("whoami", "", NoOperands),
    row("xxd", "cglos: -a -b -bits -e -i -p -ps -plain -u", AtMost(1)),
    row("xzcat", "q", Files),
    row("zcat", "fq", Files),
    row("zipinfo", "12smlvhtTz", Files),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_for_its_search() {
        let names: Vec<&str> = READERS.iter().map(|row| row.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert!(names.iter().all(|name| find(name).is_some()));
    }

    /// The first word with a letter determines the letter's value.
    #[test]
    fn no_flag_letter_of_a_program_is_listed_twice() {
        for row in READERS {
            let words = row.flags.split_ascii_whitespace().filter(|word| !word.starts_with(['-', '#']));
            let mut letters: Vec<char> =
                words.flat_map(|word| word.chars().filter(|c| c.is_alphanumeric())).collect();
            letters.sort_unstable();
            let all = letters.len();
            letters.dedup();
            assert_eq!(all, letters.len(), "{}", row.name);
        }
    }
}
