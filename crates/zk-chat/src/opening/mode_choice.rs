use zk_permission::Mode;

/// Permission mode of a conversation, for whoever changes it while it goes on: a service of its bus.
pub trait ModeChoice: Send + Sync {
    /// The mode that was chosen last.
    fn chosen(&self) -> Mode;

    /// The mode that was chosen in the conversation, if it is another than that of the settings.
    fn changed(&self) -> Option<Mode>;

    /// Chooses a mode.
    ///
    /// # Errors
    /// In words, where it is not allowed here.
    fn choose(&self, mode: Mode) -> Result<(), String>;

    /// Chooses the next mode, the tightest after the widest, and gives it.
    fn cycle(&self) -> Mode;

    /// Explains what runs without a question in a mode.
    fn explain(&self, mode: Mode) -> &'static str;
}
