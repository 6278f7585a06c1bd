//! PostgreSQL's arrays in binary form: one dimension of numbers.
//!
//! Dimensions (a word each: how many, whether there are NULLs, the element's type; then length and
//! lower bound of each), and the elements as fields.

use super::{
    ValueError,
    cursor::{Cursor, CursorError},
    fields::Scalar,
};

/// Calls `take` with each element's bytes. Anything but one dimension of `width` is refused.
pub(super) fn elements(
    bytes: &[u8],
    width: usize,
    mut take: impl FnMut(usize, Option<&[u8]>) -> Option<()>,
) -> Result<(), ValueError> {
    let bad = ValueError::Form { bytes: bytes.len() };
    let mut cursor = Cursor::new(bytes);
    let length = dimensions(&mut cursor).map_err(|_| bad)?;
    if length != width {
        return Err(ValueError::Length { found: length });
    }
    for position in 0..length {
        let element = cursor.field().map_err(|_| bad)?;
        take(position, element).ok_or(bad)?;
    }
    if cursor.rest().is_empty() { Ok(()) } else { Err(bad) }
}

/// The numbers of an array into the cells of a row; NULLs are NaN.
pub(super) fn fill(bytes: &[u8], scalar: Scalar, cells: &mut [f32]) -> Result<(), ValueError> {
    elements(bytes, cells.len(), |position, element| {
        if let Some(element) = element {
            cells[position] = scalar.decode(element)?;
        }
        Some(())
    })
}

/// Reads the dimensions; an array of none is empty.
fn dimensions(cursor: &mut Cursor<'_>) -> Result<usize, CursorError> {
    let mut word = || cursor.array().map(i32::from_be_bytes);
    let (count, _has_nulls, _element) = (word()?, word()?, word()?);
    match count {
        0 => Ok(0),
        1 => {
            let (length, _lower_bound) = (word()?, word()?);
            usize::try_from(length).map_err(|_| CursorError::Malformed("a length"))
        }
        _ => Err(CursorError::Malformed("one dimension")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dimensions: &[i32], elements: &[Option<f32>]) -> Vec<u8> {
        let count = i32::try_from(dimensions.len()).unwrap();
        let mut bytes: Vec<u8> = [count, 1, 700].iter().flat_map(|w| w.to_be_bytes()).collect();
        for length in dimensions {
            bytes.extend(length.to_be_bytes());
            bytes.extend(1_i32.to_be_bytes());
        }
        for element in elements {
            bytes.extend(if element.is_some() { 4_i32 } else { -1 }.to_be_bytes());
            bytes.extend(element.iter().flat_map(|value| value.to_be_bytes()));
        }
        bytes
    }

    fn check(bytes: &[u8], expected: Result<[f32; 2], ValueError>) {
        let mut cells = [f32::NAN; 2];
        let found = fill(bytes, Scalar::Float4, &mut cells).map(|()| cells.map(f32::to_bits));
        assert_eq!(found, expected.map(|cells| cells.map(f32::to_bits)));
    }

    #[test]
    fn only_one_dimension_of_the_right_length_is_taken() {
        let whole = array(&[2], &[Some(1.5), None]);
        check(&whole, Ok([1.5, f32::NAN]));
        check(&array(&[3], &[None; 3]), Err(ValueError::Length { found: 3 }));
        check(&array(&[], &[]), Err(ValueError::Length { found: 0 }));
        let form = |bytes: &[u8]| Err(ValueError::Form { bytes: bytes.len() });
        let square = array(&[1, 2], &[None; 2]);
        check(&square, form(&square));
        for end in 0..whole.len() {
            check(&whole[..end], form(&whole[..end]));
        }
        let long = [whole, vec![0]].concat();
        check(&long, form(&long));
        let negative = array(&[-1], &[]);
        check(&negative, form(&negative));
    }
}
