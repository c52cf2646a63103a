use super::*;

fn made_image(origin: Option<ModelRef>) -> Block {
    let wire = origin.map(|origin| WireData { origin, data: json!({"signature": "s"}) });
    Block::Image(Image { wire, ..Image::new("image/png", "aGk=") })
}

#[test]
fn a_made_image_is_sent_back_if_answers_carry_images() {
    let drawing = WireRules {
        image_in_answer: true,
        media: MediaTypes { images: MediaTypes::WEB, documents: &[], largest_image: None },
        ..rules()
    };
    let theirs = Some(ModelRef::new("maker", "other"));
    let content = vec![
        Block::text("here"),
        made_image(Some(target_model())),
        made_image(theirs),
        made_image(None),
        Block::Image(Image::new("image/svg+xml", "aGk=")),
    ];
    let history = vec![user("draw"), Message::assistant(content), user("more")];
    let ready = normalise(history.clone(), &drawing);
    let unknown = Block::text("[image omitted: image/svg+xml is not taken here]");
    let here = Block::text("here");
    assert_eq!(
        contents_of(&ready)[1],
        [here.clone(), made_image(Some(target_model())), made_image(None), made_image(None), unknown]
    );
    let omitted = || Block::text(MADE_IMAGE_OMITTED);
    assert_eq!(
        contents_of(&normalise(history.clone(), &rules()))[1],
        [here, omitted(), omitted(), omitted(), omitted()]
    );
    let blind = normalise(history, &WireRules { vision: false, ..drawing });
    assert_eq!(contents_of(&blind)[1][1], Block::text(IMAGE_OMITTED));
}

#[test]
fn a_too_large_image_gets_a_placeholder_everywhere() {
    let media = MediaTypes { largest_image: Some(1_000_000), ..MediaTypes::ANY };
    let strict = WireRules { media, image_in_answer: true, image_in_tool_result: true, ..rules() };
    let image = |length: usize| Block::Image(Image::new("image/png", "A".repeat(length)));
    let both = || vec![image(1_000_000), image(2_000_004)];
    let told = Block::text("[image omitted: it has 1.50 MB, and no more than 0.75 MB are taken here]");
    let within = |blocks| Message::user(vec![Block::result("a", ToolContent::Blocks(blocks), false)]);
    let answer = Message::assistant(vec![image(1_000_000), image(2_000_004), call("a")]);
    let ready = normalise(vec![Message::user(both()), answer, within(both())], &strict);
    let expected = vec![image(1_000_000), told];
    assert_eq!(contents_of(&ready)[0], expected);
    assert_eq!(contents_of(&ready)[1][..2], expected);
    assert_eq!(contents_of(&ready)[2], within(expected).content);
}

#[test]
fn an_answer_of_one_image_is_shared_and_not_copied() {
    let drawing = WireRules { image_in_answer: true, ..rules() };
    let history = [user("draw"), Message::assistant(vec![made_image(Some(target_model()))]), user("more")]
        .map(Message::shared);
    let ready = WireReady::normalise(&history, &drawing);
    assert!(Arc::ptr_eq(&ready.messages()[1], &history[1]));
}

#[test]
fn an_image_stored_without_provider_data_is_read() {
    let stored = json!({"type": "image", "media_type": "image/png", "data": "aGk="});
    let read: Block = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(read, made_image(None));
    assert_eq!(serde_json::to_value(&read).unwrap(), stored);
}
