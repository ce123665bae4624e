//! JSON as the page reads it: compressed by zlib, in base64. The page's `data.js` does the reverse.

use std::io::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::ZlibEncoder};
use serde::Serialize;

/// A value for an element of the page.
pub fn packed(value: &impl Serialize) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut encoder, value).expect("strings and finite numbers, written to memory");
    encoder.flush().expect("it writes to memory");
    STANDARD.encode(encoder.finish().expect("it writes to memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_value_is_zlib_in_base64() {
        let bytes = STANDARD.decode(packed(&["</script>", "שלום"])).unwrap();
        let mut decoder = flate2::read::ZlibDecoder::new(bytes.as_slice());
        let mut text = String::new();
        std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
        assert_eq!(text, r#"["</script>","שלום"]"#);
    }
}
