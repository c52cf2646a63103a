use super::*;

fn all_choices() -> Offer {
    let rows = [('y', Choice::Once), ('w', Choice::NoWithWords), ('n', Choice::No)];
    let beside = [('s', Choice::Session), ('a', Choice::Always)];
    let key = |is_row| move |(key, choice)| OfferedKey { key, choice, is_row };
    let keys = rows.into_iter().map(key(true)).chain(beside.into_iter().map(key(false)));
    Offer { keys: keys.collect(), why: true, more: false }
}

/// All choices, including those for similar calls with this letter.
fn all_choices_with(letter: char) -> Offer {
    let mut offer = all_choices();
    offer.keys.insert(1, OfferedKey { key: letter, choice: Choice::WiderSession, is_row: true });
    let key = letter.to_ascii_uppercase();
    offer.keys.push(OfferedKey { key, choice: Choice::WiderAlways, is_row: false });
    offer
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Presses keys at times in milliseconds after the question was drawn: returns the answer with its time, and
/// the draft's keys.
fn typed(offer: Offer, has_draft: bool, keys: &[(u64, &[Key])]) -> (Option<(Choice, u64)>, String) {
    let mut state: AnswerKeys = AnswerKeys::new(offer, has_draft, Duration::ZERO);
    let mut draft = String::new();
    let mut keys = keys.iter().peekable();
    for now in 0..60_000 {
        let mut effects = Vec::new();
        while let Some((_, pressed)) = keys.next_if(|(at, _)| *at <= now) {
            effects.extend(state.press(pressed, ms(now)));
        }
        effects.extend(state.tick(ms(now)));
        for effect in effects {
            match effect {
                KeyMeaning::Draft(Key::Char(c)) => draft.push(c),
                KeyMeaning::Draft(Key::Enter) => draft.push('⏎'),
                KeyMeaning::Draft(_)
                | KeyMeaning::Chosen(_)
                | KeyMeaning::Unchosen
                | KeyMeaning::NextPage
                | KeyMeaning::Why => {}
                KeyMeaning::Answer(choice) => return (Some((choice, now)), draft),
            }
        }
    }
    (None, draft)
}

fn key_at(at: u64, key: char) -> (u64, Vec<Key>) {
    (at, vec![if key == '⏎' { Key::Enter } else { Key::Char(key) }])
}

fn answer(keys: &[(u64, char)]) -> (Option<(Choice, u64)>, String) {
    let keys: Vec<(u64, Vec<Key>)> = keys.iter().map(|(at, key)| key_at(*at, *key)).collect();
    let keys: Vec<(u64, &[Key])> = keys.iter().map(|(at, keys)| (*at, keys.as_slice())).collect();
    typed(all_choices(), false, &keys)
}

#[test]
fn a_letter_answers_after_a_pause_or_with_enter() {
    for (letter, choice) in
        [('y', Choice::Once), ('s', Choice::Session), ('n', Choice::No), ('w', Choice::NoWithWords)]
    {
        assert_eq!(answer(&[(600, letter)]), (Some((choice, 1000)), String::new()));
        assert_eq!(answer(&[(600, letter), (650, '⏎')]), (Some((choice, 650)), String::new()));
        assert_eq!(answer(&[(600, letter.to_ascii_uppercase())]).0, Some((choice, 1000)));
    }
}

#[test]
fn enter_alone_approves_nothing() {
    assert_eq!(answer(&[(600, '⏎'), (2000, '⏎'), (2100, '⏎')]), (None, "⏎⏎⏎".to_owned()));
}

#[test]
fn always_needs_a_second_key_that_did_not_come_with_the_first() {
    assert_eq!(answer(&[(600, 'a')]), (None, String::new()));
    assert_eq!(answer(&[(600, 'a'), (1200, 'a')]).0, Some((Choice::Always, 1200)));
    assert_eq!(answer(&[(600, 'a'), (1200, '⏎')]).0, Some((Choice::Always, 1200)));
    assert_eq!(answer(&[(600, 'a'), (700, 'a')]), (None, "aa".to_owned()));
    assert_eq!(answer(&[(600, 'a'), (700, '⏎')]), (None, "a⏎".to_owned()));
    assert_eq!(answer(&[(600, 'a'), (1200, 'y')]), (None, "ay".to_owned()));
    let nothing = Offer::of_confirmation();
    for letter in [Key::Char('a'), Key::Char('s'), Key::Char('w')] {
        assert_eq!(typed(nothing.clone(), false, &[(600, &[letter]), (1200, &[Key::Enter])]).0, None);
    }
}

#[test]
fn wider_choices_have_keys_only_if_offered_and_permanent_ones_need_a_second_key() {
    for letter in ['p', 'd', 't', 'm'] {
        let offer = all_choices_with(letter);
        let (small, large) = ([Key::Char(letter)], [Key::Char(letter.to_ascii_uppercase())]);
        let for_session = [(600, &small[..]), (1200, &[Key::Enter])];
        assert_eq!(typed(offer.clone(), false, &for_session).0, Some((Choice::WiderSession, 1000)));
        assert_eq!(typed(offer.clone(), false, &[(600, &large[..])]).0, None);
        assert_eq!(
            typed(offer.clone(), false, &[(600, &large[..]), (1200, &large[..])]).0,
            Some((Choice::WiderAlways, 1200))
        );
        assert_eq!(typed(offer.clone(), false, &[(600, &large[..]), (1200, &small[..])]).0, None);
        assert_eq!(typed(all_choices(), false, &[(600, &small[..]), (1200, &[Key::Enter])]).0, None);
    }
}

#[test]
fn a_question_ignores_keys_when_just_drawn_and_after_each_key_of_the_draft() {
    assert_eq!(answer(&[(499, 'y')]), (None, "y".to_owned()));
    assert_eq!(answer(&[(499, 'y'), (998, 'y'), (1497, 'y')]), (None, "yyy".to_owned()));
    assert_eq!(answer(&[(600, 'x'), (1099, 'y')]), (None, "xy".to_owned()));
}

#[test]
fn a_word_answers_nothing_and_goes_to_the_draft_whole() {
    for word in ["yes", "say", "also", "no", "why", "so yes 1 and any way"] {
        let keys: Vec<(u64, char)> =
            word.chars().enumerate().map(|(at, c)| (600 + 90 * at as u64, c)).collect();
        assert_eq!(answer(&keys), (None, word.to_owned()));
    }
}

#[test]
fn with_a_draft_a_letter_and_enter_answer_nothing_however_long_nothing_was_typed() {
    let y: &[Key] = &[Key::Char('y')];
    assert_eq!(typed(all_choices(), true, &[(600, y)]), (None, "y".to_owned()));
    assert_eq!(typed(all_choices(), true, &[(9000, y), (12_000, &[Key::Enter])]), (None, "y⏎".to_owned()));
    assert_eq!(typed(all_choices(), false, &[(600, &[Key::Char('x')]), (2000, y)]), (None, "xy".to_owned()));
    let blank: &[Key] = &[Key::Char(' ')];
    assert_eq!(typed(Offer { more: true, ..all_choices() }, true, &[(600, blank)]), (None, " ".to_owned()));
}

#[test]
fn a_focused_question_is_answered_and_the_draft_is_kept() {
    let mut keys = AnswerKeys::new(all_choices(), true, Duration::ZERO);
    keys.focus(ms(1000));
    assert_eq!(keys.press(&[Key::Char('y')], ms(1400)), [KeyMeaning::Chosen(Choice::Once)]);
    assert_eq!(keys.tick(ms(1800)), Some(KeyMeaning::Answer(Choice::Once)));
}

#[test]
fn a_draft_that_was_emptied_keeps_no_more_keys() {
    let mut keys = AnswerKeys::new(all_choices(), true, Duration::ZERO);
    keys.press(&[Key::Back], ms(1000));
    keys.set_typing(false);
    assert_eq!(keys.press(&[Key::Char('y')], ms(1499)), [KeyMeaning::Draft(Key::Char('y'))]);
    keys.set_typing(false);
    assert_eq!(keys.press(&[Key::Char('y')], ms(2000)), [KeyMeaning::Chosen(Choice::Once)]);
}

#[test]
fn scrolling_leaves_a_draft_its_keys() {
    let mut keys = AnswerKeys::new(all_choices(), true, Duration::ZERO);
    keys.scrolled(ms(1000));
    assert_eq!(keys.press(&[Key::Char('y')], ms(2000)), [KeyMeaning::Draft(Key::Char('y'))]);
    let mut keys = AnswerKeys::new(all_choices(), false, Duration::ZERO);
    keys.scrolled(ms(400));
    assert_eq!(keys.press(&[Key::Char('y')], ms(699)), [KeyMeaning::Draft(Key::Char('y'))]);
}

#[test]
fn a_line_that_answers_leaves_a_draft_its_keys_until_the_person_turns_to_it() {
    let (one, enter) = ([Key::Char('1')], [Key::Enter]);
    let mut line = LineFocus::new(true, Duration::ZERO);
    assert!(!line.takes_keys(&one, ms(5000)) && !line.takes_keys(&enter, ms(9000)) && line.is_typing());
    line.focus(ms(10_000));
    assert!(line.is_focused() && line.takes_keys(&one, ms(10_300)));
    let mut line = LineFocus::new(true, Duration::ZERO);
    line.focus(ms(10_000));
    assert!(!line.takes_keys(&one, ms(10_299)), "it waits a moment");
    let mut line = LineFocus::new(false, Duration::ZERO);
    assert!(!line.takes_keys(&enter, ms(600)), "Enter may have been on its way");
    line.set_typing(false);
    assert!(!line.takes_keys(&one, ms(1099)));
    line.set_typing(false);
    assert!(line.takes_keys(&one, ms(1600)) && line.takes_keys(&enter, ms(1610)));
    assert!(LineFocus::wanted().takes_keys(&one, Duration::ZERO));
}

#[test]
fn keys_that_come_together_answer_nothing() {
    let together: &[Key] = &[Key::Char('y'), Key::Enter];
    assert_eq!(typed(all_choices(), false, &[(900, together)]), (None, "y⏎".to_owned()));
    assert_eq!(
        typed(all_choices(), false, &[(900, &[Key::Char('y')]), (950, together)]),
        (None, "yy⏎".to_owned())
    );
}

#[test]
fn the_space_shows_the_next_page_only_if_there_is_one() {
    let more = Offer { more: true, ..all_choices() };
    let mut state = AnswerKeys::new(more.clone(), false, Duration::ZERO);
    assert_eq!(state.press(&[Key::Char(' ')], ms(400)), [KeyMeaning::Draft(Key::Char(' '))]);
    let mut state = AnswerKeys::new(more, false, Duration::ZERO);
    assert_eq!(state.press(&[Key::Char(' ')], ms(600)), [KeyMeaning::NextPage]);
    let mut state = AnswerKeys::new(all_choices(), false, Duration::ZERO);
    assert_eq!(state.press(&[Key::Char(' ')], ms(600)), [KeyMeaning::Draft(Key::Char(' '))]);
}

/// Random generator with a fixed seed, for reproducible failures.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Number of bursts: a hundredth of the campaign, unless `ZK_BURSTS` says more.
#[expect(clippy::disallowed_methods, reason = "how much is tried is chosen from outside")]
fn bursts() -> u64 {
    std::env::var("ZK_BURSTS").ok().and_then(|count| count.parse().ok()).unwrap_or(100)
}

#[test]
fn no_burst_of_typing_answers_and_every_key_of_it_is_in_the_draft() {
    let letters: Vec<char> = "ysanwYSAN abcdelorti".chars().collect();
    let mut random = Random(7);
    for burst in 0..bursts() {
        // A person types a line, starting before or after the question is drawn, with 20 to 350 ms between
        // keys. More than one key follows the drawing.
        let mut at = random.below(3000);
        let mut keys = Vec::new();
        for _ in 0..2 + random.below(40) {
            let letter = letters[random.below(letters.len() as u64) as usize];
            keys.push((at, letter));
            at += 20 + random.below(330);
        }
        let (answered, draft) = answer(&keys);
        let typed: String = keys.iter().map(|(_, key)| *key).collect();
        assert_eq!((answered, draft), (None, typed), "burst {burst}: {keys:?}");
    }
}

#[test]
fn no_pause_of_up_to_two_seconds_makes_an_answer_of_a_text_that_was_begun_before() {
    let letters: Vec<char> = "ysanwYSAN delpP".chars().collect();
    let mut random = Random(11);
    for text in 0..bursts() {
        let mut at = random.below(2000);
        let mut keys = Vec::new();
        for _ in 0..1 + random.below(25) {
            keys.push((at, letters[random.below(letters.len() as u64) as usize]));
            at += 20 + random.below(2000);
        }
        let pressed: Vec<(u64, Vec<Key>)> = keys.iter().map(|(at, key)| key_at(*at, *key)).collect();
        let pressed: Vec<(u64, &[Key])> = pressed.iter().map(|(at, keys)| (*at, keys.as_slice())).collect();
        let offer = Offer { more: true, ..all_choices_with('p') };
        let typed_text: String = keys.iter().map(|(_, key)| *key).collect();
        assert_eq!(typed(offer, true, &pressed), (None, typed_text), "text {text}: {keys:?}");
    }
}

#[test]
fn a_question_that_the_person_focused_on_takes_keys_sooner() {
    let offer = all_choices();
    let at = Duration::from_millis;
    let keys = || {
        let mut keys = AnswerKeys::new(offer.clone(), false, Duration::ZERO);
        keys.focus(Duration::ZERO);
        keys
    };
    assert!(matches!(keys().press(&[Key::Char('y')], at(299))[..], [KeyMeaning::Draft(_)]));
    assert!(matches!(keys().press(&[Key::Char('y')], at(300))[..], [KeyMeaning::Chosen(Choice::Once)]));
    let mut drawn = AnswerKeys::new(offer, false, Duration::ZERO);
    assert!(matches!(drawn.press(&[Key::Char('y')], at(300))[..], [KeyMeaning::Draft(_)]));
}

#[test]
fn showing_the_next_page_focuses_on_the_question() {
    let mut keys = AnswerKeys::new(all_choices(), true, Duration::ZERO).turned(Duration::ZERO);
    assert_eq!(keys.press(&[Key::Char('y')], ms(299)), [KeyMeaning::Draft(Key::Char('y'))]);
    let mut keys = AnswerKeys::new(all_choices(), true, Duration::ZERO).turned(Duration::ZERO);
    assert_eq!(keys.press(&[Key::Char('y')], ms(300)), [KeyMeaning::Chosen(Choice::Once)]);
    assert_eq!(keys.press(&[Key::Enter], ms(310)), [KeyMeaning::Answer(Choice::Once)]);
}

const UP: Key = Key::Move { to: Direction::Up, word: false };
const DOWN: Key = Key::Move { to: Direction::Down, word: false };

#[test]
fn enter_approves_only_a_choice_that_an_arrow_moved_to_a_moment_before() {
    let (down, up, enter): (&[Key], &[Key], &[Key]) = (&[DOWN], &[UP], &[Key::Enter]);
    assert_eq!(typed(all_choices(), false, &[(600, down), (1000, enter)]).0, Some((Choice::Once, 1000)));
    assert_eq!(
        typed(all_choices(), false, &[(600, down), (700, down), (1000, enter)]).0,
        Some((Choice::NoWithWords, 1000))
    );
    assert_eq!(
        typed(all_choices(), false, &[(600, up), (1000, enter)]).0,
        Some((Choice::No, 1000)),
        "up marks the last"
    );
    // A key that came with the arrow, or right after the question was drawn, answers nothing and is no text.
    assert_eq!(typed(all_choices(), false, &[(600, down), (899, enter)]), (None, String::new()));
    assert_eq!(
        typed(all_choices(), false, &[(600, down), (899, enter), (1200, enter)]).0,
        Some((Choice::Once, 1200))
    );
    assert_eq!(
        typed(all_choices(), false, &[(499, down), (1200, enter)]).0,
        None,
        "it was drawn a moment ago"
    );
    assert_eq!(
        typed(all_choices(), true, &[(900, down), (1500, enter)]).0,
        None,
        "arrows are for the draft that is there"
    );
    assert_eq!(typed(all_choices(), false, &[(600, &[DOWN, Key::Enter])]).0, None, "they came together");
    assert_eq!(
        typed(all_choices(), false, &[(600, &[DOWN, DOWN, DOWN]), (1000, enter)]).0,
        Some((Choice::No, 1000))
    );
    // A letter of no choice removes the mark.
    let x: &[Key] = &[Key::Char('x')];
    assert_eq!(typed(all_choices(), false, &[(600, down), (1000, x), (2000, enter)]).0, None);
}

#[test]
fn a_digit_chooses_the_row_of_its_number_and_a_question_mark_asks_why() {
    let digit = |digit| [Key::Char(digit)];
    assert_eq!(typed(all_choices(), false, &[(600, &digit('1'))]).0, Some((Choice::Once, 1000)));
    assert_eq!(typed(all_choices(), false, &[(600, &digit('3'))]).0, Some((Choice::No, 1000)));
    for none in ['0', '4', '9'] {
        assert_eq!(typed(all_choices(), false, &[(600, &digit(none))]), (None, none.to_string()), "{none}");
    }
    let mut keys: AnswerKeys = AnswerKeys::new(all_choices(), false, Duration::ZERO);
    assert_eq!(keys.press(&[Key::Char('?')], ms(400)), [KeyMeaning::Draft(Key::Char('?'))]);
    let mut keys: AnswerKeys = AnswerKeys::new(all_choices(), false, Duration::ZERO);
    assert_eq!(keys.press(&[Key::Char('?')], ms(600)), [KeyMeaning::Why]);
    assert_eq!(keys.press(&[Key::Char('y')], ms(601)), [KeyMeaning::Chosen(Choice::Once)], "it is no text");
    let mut keys: AnswerKeys = AnswerKeys::new(all_choices(), true, Duration::ZERO);
    assert_eq!(keys.press(&[Key::Char('?')], ms(600)), [KeyMeaning::Draft(Key::Char('?'))]);
}
