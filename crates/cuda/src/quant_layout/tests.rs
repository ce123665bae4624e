//! `QuantLayout` against the values that the CPU unpacks.

use std::fmt::Write as _;

use half::{bf16, f16};

use tribunal_core::digest::hex;

use super::{QuantLayout, STRIP};
use tribunal_cpu::Packed;
use tribunal_model::weights::{Format, ggml::FP4};

const FORMATS: [Format; 11] = [
    Format::Q8_0,
    Format::Mxfp4,
    Format::Q4K,
    Format::Q6K,
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q5_1,
    Format::Q5K,
    Format::U4,
    Format::F8E4M3,
];

/// Blocks with every code and integer scale; only their `f16` scales are plausible.
fn blocks(format: Format, n: usize, k: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let mut bytes: Vec<u8> = (0..n * format.row_bytes(k)).map(|_| next() as u8).collect();
    let places: &[usize] = match format {
        Format::Q4K | Format::Q4_1 | Format::Q5_1 | Format::Q5K => &[0, 2],
        Format::Q6K => &[208],
        _ => &[0],
    };
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        match format {
            // Scales that are supported.
            Format::Mxfp4 => {
                block[0] = 104 + block[0] % 40;
                continue;
            }
            Format::F8E4M3 => {
                block[..4].copy_from_slice(&(0.02 * next() as f32 / (1u32 << 24) as f32).to_le_bytes());
                continue;
            }
            _ => {}
        }
        for &at in places {
            let d = f16::from_f32(0.02 * (next() as f32 / (1u32 << 23) as f32 - 1.0));
            block[at..at + 2].copy_from_slice(&d.to_le_bytes());
        }
    }
    bytes
}

fn written(format: Format, k: usize, rows: &[u8]) -> Vec<u8> {
    let planes = QuantLayout::new(format, k).unwrap();
    // A pattern that shows unwritten bytes.
    let mut out = vec![0xa5; planes.bytes(rows.len() / format.row_bytes(k))];
    planes.write(rows, &mut out);
    out
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()).to_f32()
}

/// A strip read the way a warp does, lane by lane: `[output][k]`.
fn values(format: Format, k: usize, strip: &[u8]) -> Vec<Vec<f32>> {
    let (codes_bytes, scales_bytes) = match format {
        Format::Q8_0 => (512, 32),
        Format::F8E4M3 => (512, 64),
        Format::Q4K | Format::Mxfp4 => (256, 32),
        Format::Q6K => (384, 32),
        Format::Q4_0 | Format::Q4_1 | Format::U4 => (256, 64),
        Format::Q5_0 | Format::Q5_1 => (320, 64),
        _ => (320, 32),
    };
    let unit_bytes = codes_bytes + scales_bytes;
    let supers = &strip[k / 32 * unit_bytes..];
    let mut out = vec![vec![0.0; k]; STRIP];
    for (u, unit) in strip.chunks_exact(unit_bytes).take(k / 32).enumerate() {
        for (lane, step, pair, second) in every_code() {
            let (g, output) = (lane / 4, lane / 4 + 8 * (pair % 2));
            let scales = codes_bytes + scales_bytes / 8 * g;
            let nibble = || word(unit, 8 * lane + 4 * step) >> (4 * (pair + 4 * second)) & 15;
            let fifth = || u32::from(unit[256 + 2 * lane + second] >> (4 * step + pair) & 1) << 4;
            let code = || if codes_bytes == 320 { nibble() | fifth() } else { nibble() };
            let byte = || unit[16 * lane + 4 * (2 * step + pair / 2) + pair % 2 + 2 * second];
            let value = match format {
                Format::Q8_0 => half(unit, scales + 2 * (pair % 2)) * f32::from(byte() as i8),
                Format::F8E4M3 => {
                    // The code as an f16 is 2^8 too small.
                    let bits = u16::from(byte() & 0x80) << 8 | u16::from(byte() & 0x7f) << 7;
                    let scale = f32::from_bits(word(unit, scales + 4 * (pair % 2)));
                    scale * (256.0 * f16::from_bits(bits).to_f32())
                }
                Format::U4 => {
                    let at = scales + 4 * (pair % 2);
                    half(unit, at) * (nibble() as f32 - half(unit, at + 2))
                }
                Format::Mxfp4 => {
                    let bytes = &unit[scales + 2 * (pair % 2)..][..2];
                    let scale = bf16::from_le_bytes(bytes.try_into().unwrap()).to_f32();
                    f32::from(FP4[nibble() as usize]) * scale
                }
                Format::Q4_0 | Format::Q4_1 | Format::Q5_0 | Format::Q5_1 => {
                    let at = scales + 4 * (pair % 2);
                    half(unit, at) * code() as f32 + half(unit, at + 2)
                }
                Format::Q4K | Format::Q5K => {
                    let of_output = &unit[scales + 2 * (pair % 2)..];
                    let d = &supers[64 * (u / 8) + 8 * g + 4 * (pair % 2)..];
                    let minimum = half(d, 2) * f32::from(of_output[1]);
                    half(d, 0) * f32::from(of_output[0]) * code() as f32 - minimum
                }
                _ => {
                    let high = word(unit, 256 + 4 * lane) >> (2 * (4 * step + pair) + 16 * second) & 3;
                    let scale = f32::from(unit[scales + 2 * step + pair % 2] as i8);
                    let d = half(supers, 32 * (u / 8) + 4 * g + 2 * (pair % 2));
                    d * scale * ((nibble() | high << 4) as f32 - 32.0)
                }
            };
            out[output][32 * u + 16 * step + 8 * (pair / 2) + 2 * (lane % 4) + second] = value;
        }
    }
    out
}

/// Lane, step, pair, and the index in the pair.
fn every_code() -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..32 * 2 * 4 * 2).map(|i| (i / 16, i / 8 % 2, i / 2 % 4, i % 2))
}

fn check(format: Format, n: usize, k: usize) {
    let rows = blocks(format, n, k);
    let strips = written(format, k, &rows);
    let packed = Packed::pack(format, n, k, &rows).unwrap();
    let mut expected = vec![0.0; k];
    for (s, strip) in strips.chunks_exact(QuantLayout::new(format, k).unwrap().strip_bytes()).enumerate() {
        for (output, row) in values(format, k, strip).iter().enumerate() {
            expected.fill(0.0);
            if s * STRIP + output < n {
                packed.dequantize_row(s * STRIP + output, &mut expected);
            }
            assert!(*row == expected, "{format:?} [{n}, {k}], output {output} of strip {s}");
        }
    }
}

#[test]
fn every_value_is_the_one_that_the_cpu_unpacks() {
    for format in FORMATS {
        check(format, 16, 256);
        check(format, 37, 768);
    }
    check(Format::Q8_0, 5, 96);
    check(Format::Q8_0, 17, 32);
    check(Format::Mxfp4, 17, 96);
}

#[test]
fn a_matrix_can_be_written_in_parts() {
    for format in FORMATS {
        let (n, k) = (40, 512);
        let rows = blocks(format, n, k);
        let planes = QuantLayout::new(format, k).unwrap();
        let (rows_cut, out_cut) = (2 * STRIP * format.row_bytes(k), 2 * planes.strip_bytes());
        let mut out = vec![0; planes.bytes(n)];
        planes.write(&rows[..rows_cut], &mut out[..out_cut]);
        planes.write(&rows[rows_cut..], &mut out[out_cut..]);
        assert!(out == written(format, k, &rows), "{format:?}");
    }
}

#[test]
fn other_formats_have_no_planes() {
    for format in Format::ALL {
        assert_eq!(QuantLayout::new(format, 256).is_some(), FORMATS.contains(&format), "{format:?}");
    }
    assert_eq!(QuantLayout::new(Format::Q4K, 96), None, "no whole blocks");
    assert_eq!(QuantLayout::new(Format::Q8_0, 0), None);
}

#[test]
fn strips_are_aligned_and_take_little_more_than_the_file() {
    for format in FORMATS {
        let planes = QuantLayout::new(format, 3584).unwrap();
        assert_eq!(planes.strip_bytes() % 16, 0);
        let share = planes.bytes(1024) as f64 / (1024 * format.row_bytes(3584)) as f64;
        // Q4_0 and Q5_0 get minima, zero points two bytes.
        assert!((1.0..1.12).contains(&share), "{format:?}: {share}");
    }
}

/// The kernels read this layout: kernels/tests/planes.cpp takes the same file and compares each value with
/// the file's blocks. After a change of the layout, `INSTA_UPDATE=always` writes it anew.
#[test]
fn the_golden_file_of_the_kernels() {
    let mut lines = String::new();
    for (name, format, n, k) in [
        ("q8_0", Format::Q8_0, 18, 96),
        ("mxfp4", Format::Mxfp4, 18, 96),
        ("q4_k", Format::Q4K, 3, 512),
        ("q6_k", Format::Q6K, 3, 512),
        ("q4_0", Format::Q4_0, 18, 96),
        ("q4_1", Format::Q4_1, 18, 96),
        ("q5_0", Format::Q5_0, 18, 96),
        ("q5_1", Format::Q5_1, 18, 96),
        ("q5_k", Format::Q5K, 3, 512),
        ("u4", Format::U4, 18, 96),
        ("f8", Format::F8E4M3, 18, 96),
    ] {
        let rows = blocks(format, n, k);
        writeln!(lines, "{name} {n} {k} {} {}", hex(&rows), hex(&written(format, k, &rows))).unwrap();
    }
    insta::with_settings!({ snapshot_path => "../../../../tests/golden", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("planes", lines);
    });
}
