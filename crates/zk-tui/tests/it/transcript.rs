use zk_tui::{Row, Style, Transcript};
use zk_view::View;

#[test]
fn printed_rows_that_wait_are_bounded_and_the_newest_are_kept() {
    let mut transcript = Transcript::new(View::default(), 80);
    let row = Row::of(Style::PLAIN, &"x".repeat(1024 * 1024));
    for _ in 0..200 {
        transcript.print(vec![row.clone()]);
    }
    transcript.print(vec![Row::of(Style::PLAIN, "the last one")]);
    let rows = transcript.take_closed(0);
    let left_out: usize = rows[0].text().split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(left_out + rows.len() - 1, 201);
    assert!((32..=64).contains(&rows.len()), "{}", rows.len());
    assert_eq!(rows.last().unwrap().text(), "the last one");
    transcript.print(vec![Row::of(Style::PLAIN, "one more")]);
    assert_eq!(transcript.take_closed(0).len(), 1);
}
