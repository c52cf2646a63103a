//! Directories, repositories and marketplaces.

use std::path::Path;

use zk_bundles::{Marketplace, Source};

use crate::support::{Place, commit, run};

fn url(dir: &Path) -> String {
    format!("file://{}", dir.display())
}

fn git(url: &str, reference: Option<&str>, sha: Option<&str>) -> Source {
    Source::git(url, None, reference.map(str::to_owned), sha.map(str::to_owned)).unwrap()
}

#[test]
fn what_a_person_types_is_a_path_an_address_or_a_name_at_a_marketplace() {
    let place = Place::new();
    place.demo("demo");
    place.write("a.zip", "");
    place.write("a.txt", "");
    let cwd = place.path("");
    let parsed = |text: &str| Source::parse(text, &cwd);
    assert_eq!(parsed("./demo").unwrap(), Source::Directory { path: place.path("demo") });
    assert_eq!(parsed("a.zip").unwrap(), Source::Archive { path: place.path("a.zip") });
    let (plugin, marketplace) = ("demo".to_owned(), "shop".to_owned());
    assert_eq!(parsed("demo@shop").unwrap(), Source::Marketplace { plugin, marketplace });
    assert_eq!(parsed("owner/repo").unwrap(), git("https://github.com/owner/repo.git", None, None));
    assert_eq!(parsed("https://h/a.git#v1").unwrap(), git("https://h/a.git", Some("v1"), None));
    assert_eq!(parsed("git@h:a/b").unwrap(), git("git@h:a/b", None, None));
    for (text, why) in [
        ("a.txt", "no .tar.gz"),
        ("nowhere", "is no directory"),
        ("ext::sh -c id", "none of https, ssh and file"),
        ("--upload-pack=x://y", "none of https, ssh and file"),
        ("https://user:token@h/a.git", "password or token"),
        ("https://token@h/a.git", "password or token"),
        ("https://h/a.git#--orphan", "branch or tag"),
        ("https://h/a b", "characters that no address has"),
    ] {
        let said = parsed(text).unwrap_err().to_string();
        assert!(said.contains(why) && !said.contains("token@"), "{text}: {said}");
    }
}

#[tokio::test]
async fn a_repository_is_fetched_at_a_branch_or_a_commit_and_runs_nothing() {
    let place = Place::new();
    let dir = place.demo("repo");
    place.write("home/.gitconfig", &format!("[init]\ntemplateDir = {}\n", place.path("template").display()));
    let hook = place.write(
        "template/hooks/post-checkout",
        &format!("#!/bin/sh\ntouch {}\n", place.path("canary").display()),
    );
    if run(&dir, "chmod", &["+x", hook.to_str().unwrap()]).is_none() {
        return;
    }
    let Some(first) = commit(&dir) else { return };
    run(&dir, "git", &["tag", "v1"]);
    place.write("repo/commands/two.md", "Do two.");
    let second = commit(&dir).unwrap();
    let fetcher = place.fetcher();
    let fetch = async |source: &Source| fetcher.fetch(source, &|_| None).await;
    let newest = fetch(&git(&url(&dir), None, None)).await.unwrap();
    assert_eq!((newest.commit.as_deref(), newest.bundle.commands.len()), (Some(&*second), 2));
    assert!(newest.tree.files().all(|(path, _)| !path.starts_with(".git/")));
    let tagged = fetch(&git(&url(&dir), Some("v1"), None)).await.unwrap();
    assert_eq!((tagged.commit.as_deref(), tagged.bundle.commands.len()), (Some(&*first), 1));
    let pinned = fetch(&git(&url(&dir), None, Some(&first))).await.unwrap();
    assert_eq!(pinned.commit.as_deref(), Some(&*first));
    let gone = fetch(&git(&url(&dir), None, Some(&"0".repeat(40)))).await.unwrap_err().to_string();
    assert!(gone.contains("git "), "{gone}");
    assert!(!place.path("canary").exists(), "a hook of git ran");
    let left: Vec<_> = std::fs::read_dir(place.path("state/plugins")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_marketplace_gives_its_own_directories_and_other_repositories_at_their_commits() {
    let place = Place::new();
    place.demo("shop/plugins/demo");
    place.write("shop/plugins/bare/commands/x.md", "x");
    let other = place.path("other");
    place.write("other/deep/plugin/commands/y.md", "y");
    let Some(sha) = commit(&other) else { return };
    let market = |sha: &str| {
        let url = url(&other);
        format!(
            r#"{{"name":"shop","owner":{{"name":"a"}},"plugins":[
            {{"name":"demo","source":"./plugins/demo"}},
            {{"name":"bare","source":"./plugins/bare","description":"Bare.","strict":false}},
            {{"name":"far","source":{{"source":"git-subdir","url":"{url}","path":"deep/plugin","sha":"{sha}"}}}},
            {{"name":"out","source":"./../other"}},
            {{"name":"odd","source":{{"source":"npm","package":"x"}}}},
            {{"name":"demo","source":"./plugins/bare"}}]}}"#
        )
    };
    place.write("shop/.claude-plugin/marketplace.json", &market(&sha));
    let source = Source::Directory { path: place.path("shop") };
    let fetcher = place.fetcher();
    let read = fetcher.marketplace(&source).await.unwrap();
    assert_eq!((read.entries.len(), read.problems.len()), (3, 3), "{:?}", read.problems);
    let take = async |name: &str| {
        let entry = Source::Marketplace { plugin: name.to_owned(), marketplace: "shop".to_owned() };
        let known = source.clone();
        fetcher.fetch(&entry, &move |name| (name == "shop").then(|| known.clone())).await
    };
    assert_eq!(take("demo").await.unwrap().bundle.commands[0].name, "demo:one");
    let bare = take("bare").await.unwrap().bundle;
    assert_eq!((bare.name(), bare.manifest.description.as_deref()), ("bare", Some("Bare.")));
    let far = take("far").await.unwrap();
    assert_eq!((far.bundle.commands[0].name.as_str(), far.commit.as_deref()), ("far:y", Some(&*sha)));
    assert!(take("none").await.unwrap_err().to_string().contains("no plugin `none`"));
    place.write("shop/.claude-plugin/marketplace.json", &market(&"1".repeat(40)));
    assert!(take("far").await.is_err(), "another commit than the demanded one");
}

#[test]
fn a_file_that_is_no_marketplace_is_refused_in_words() {
    for (text, why) in [
        ("{", "no JSON"),
        ("[]", "no `name`"),
        (r#"{"name":"../x","plugins":[]}"#, "no `name`"),
        (r#"{"name":"a"}"#, "no list `plugins`"),
    ] {
        let error = Marketplace::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}
