//! Punctuation that ends a sentence or a clause. A translation with fewer marks than its source may lack a
//! part of it.

/// Numbers of marks in a text. Marks between digits and letters (`3.5`, `e.g`) do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Ends of sentences: several marks in a row (`?!`, `...`) are one, and so is the end of the text.
    pub sentences: usize,
    /// Commas, semicolons, colons.
    pub clauses: usize,
}

impl Marks {
    /// The marks of a text in any script.
    pub fn new(text: &str) -> Self {
        let mut found = Self::default();
        let mut in_sentence = false;
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            let ends_word = characters.peek().is_none_or(|next| !next.is_alphanumeric());
            match c {
                '。' | '！' | '？' | '؟' | '।' | '۔' | '។' | '…' => {
                    found.end_sentence(&mut in_sentence);
                }
                '.' | '!' | '?' if ends_word => found.end_sentence(&mut in_sentence),
                '，' | '、' | '；' | '：' | '،' | '؛' => found.clauses += 1,
                ',' | ';' | ':' if ends_word => found.clauses += 1,
                c => in_sentence |= c.is_alphanumeric(),
            }
        }
        found.end_sentence(&mut in_sentence);
        found
    }

    fn end_sentence(&mut self, in_sentence: &mut bool) {
        self.sentences += usize::from(std::mem::take(in_sentence));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_counted_in_any_script() {
        let check = |text: &str, sentences: usize, clauses: usize| {
            assert_eq!(Marks::new(text), Marks { sentences, clauses }, "{text}");
        };
        check("He came, saw, and won. Really?! Yes...", 3, 2);
        check("Er kam um 10:30 Uhr, mit 3,5 kg", 1, 1);
        check("他来了，看见了，赢了。真的吗？", 2, 2);
        check("“Go.” (Now.) «No»", 3, 0);
        check("", 0, 0);
        check(" ... ,", 0, 1);
    }
}
