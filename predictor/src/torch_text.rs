//! What libtorch says, for people: one sentence, without the frames of its C++ stack.

use tch::TchError;

/// The first sentence of what libtorch says; of an error inside a script, that of the operation.
pub(crate) fn first_sentence(error: &TchError) -> String {
    let text = match error {
        TchError::Torch(text) => text.clone(),
        error => error.to_string(),
    };
    let of_script = text.lines().find_map(|line| line.trim().strip_prefix("RuntimeError: "));
    let line = of_script.or_else(|| text.lines().map(str::trim).find(|line| !line.is_empty()));
    let line = line.unwrap_or("libtorch does not say why");
    let line = line.split("Exception raised from").next().unwrap_or(line);
    line.trim().trim_end_matches(['.', ':']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_left_out() {
        let error = tch::CModule::load_data(&mut &[7; 4096][..]).map(drop).unwrap_err();
        let text = first_sentence(&error);
        assert!(!text.is_empty() && !text.contains("frame #"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        let frames = "PytorchStreamReader failed reading zip archive: not a ZIP archive\n\
                      Exception raised from valid at inline_container.cc:197 (most recent call \
                      first):\nframe #0: c10::Error::Error(c10::SourceLocation) + 0x6c\n";
        let expected = "PytorchStreamReader failed reading zip archive: not a ZIP archive";
        assert_eq!(first_sentence(&TchError::Torch(frames.to_owned())), expected);
        let script = "The following operation failed in the TorchScript interpreter.\n\
                      Traceback of TorchScript (most recent call last):\n\
                      RuntimeError: sizes differ\n";
        assert_eq!(first_sentence(&TchError::Torch(script.to_owned())), "sizes differ");
    }
}
