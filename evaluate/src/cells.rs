//! The cells of a column as numbers: what is text is parsed, and what is no number is refused rather than
//! taken for missing.

use crate::error::EvaluateError;
use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray},
    compute::{cast, filter},
    datatypes::{DataType, Float64Type, Int64Type},
};
use millstream_data::{
    TimeKind,
    table::{self, KeyError},
};

/// How text says that there is nothing, beside an empty cell; capitals are the same.
const MISSING: [&str; 5] = ["nan", "na", "n/a", "null", "none"];

/// A column of a batch, and the number of rows before it.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a> {
    pub(crate) column: &'a ArrayRef,
    pub(crate) name: &'a str,
    pub(crate) before: u64,
}

impl Cells<'_> {
    fn is_text(&self) -> bool {
        matches!(self.column.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    }

    fn converted(&self, to: &DataType) -> Result<ArrayRef, EvaluateError> {
        cast(self.column, to).map_err(|source| {
            let column = self.name.to_owned();
            EvaluateError::Convert { column, source }
        })
    }

    /// Whether the numbers have 32 bits at most.
    pub(crate) fn is_single(&self) -> bool {
        matches!(self.column.data_type(), DataType::Float16 | DataType::Float32)
    }

    /// Appends the numbers; NaN where there is none.
    pub(crate) fn numbers(&self, into: &mut Vec<f64>) -> Result<(), EvaluateError> {
        if self.is_text() {
            let texts = self.converted(&DataType::Utf8)?;
            for (row, text) in texts.as_string::<i32>().iter().enumerate() {
                let text = text.unwrap_or_default().trim();
                let missing =
                    text.is_empty() || MISSING.iter().any(|word| text.eq_ignore_ascii_case(word));
                let number = if missing { Some(f64::NAN) } else { text.parse().ok() };
                into.push(number.ok_or_else(|| self.cell(row, text, "a number"))?);
            }
            return Ok(());
        }
        let numeric = self.column.data_type().is_numeric()
            || matches!(self.column.data_type(), DataType::Null | DataType::Boolean);
        if !numeric {
            return Err(self.other_type("numbers"));
        }
        let numbers = self.converted(&DataType::Float64)?;
        into.extend(numbers.as_primitive::<Float64Type>().iter().map(|n| n.unwrap_or(f64::NAN)));
        Ok(())
    }

    /// Appends whole numbers, one in every row.
    pub(crate) fn integers(&self, into: &mut Vec<i32>) -> Result<(), EvaluateError> {
        const EXPECTED: &str = "a whole number";
        if self.is_text() {
            let texts = self.converted(&DataType::Utf8)?;
            for (row, text) in texts.as_string::<i32>().iter().enumerate() {
                let text = text.unwrap_or_default().trim();
                into.push(text.parse().map_err(|_| self.cell(row, text, EXPECTED))?);
            }
            return Ok(());
        }
        if !self.column.data_type().is_integer() {
            return Err(self.other_type("whole numbers"));
        }
        let numbers = self.converted(&DataType::Int64)?;
        for (row, number) in numbers.as_primitive::<Int64Type>().iter().enumerate() {
            let small = number.and_then(|number| i32::try_from(number).ok());
            let text = || number.map(|number| number.to_string()).unwrap_or_default();
            into.push(small.ok_or_else(|| self.cell(row, &text(), EXPECTED))?);
        }
        Ok(())
    }

    /// Appends times, `None` where there is none; and what they are, where there is one.
    pub(crate) fn times(
        &self,
        into: &mut Vec<Option<i64>>,
    ) -> Result<Option<TimeKind>, EvaluateError> {
        let nulls = self.column.logical_nulls();
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            let (times, kind) = table::times(self.column, |_, _| {}).map_err(|e| self.key(e))?;
            into.extend(times.into_iter().map(Some));
            return Ok((!self.column.is_empty()).then_some(kind));
        };
        let valid = BooleanArray::new(nulls.inner().clone(), None);
        let there = filter(self.column, &valid).map_err(|source| {
            let column = self.name.to_owned();
            EvaluateError::Convert { column, source }
        })?;
        if there.is_empty() {
            into.extend(std::iter::repeat_n(None, self.column.len()));
            return Ok(None);
        }
        let (times, kind) = table::times(&there, |_, _| {}).map_err(|error| self.key(error))?;
        let mut times = times.into_iter();
        into.extend(nulls.iter().map(|valid| if valid { times.next() } else { None }));
        Ok(Some(kind))
    }

    /// Appends times, one in every row.
    pub(crate) fn every_time(&self, into: &mut Vec<i64>) -> Result<TimeKind, EvaluateError> {
        let (times, kind) = table::times(self.column, |_, _| {}).map_err(|e| self.key(e))?;
        into.extend(times);
        Ok(kind)
    }

    /// An error of a key, whose rows count from 0 in the batch.
    pub(crate) fn key(&self, mut source: KeyError) -> EvaluateError {
        if let KeyError::Empty { row } | KeyError::Time { row, .. } = &mut source {
            *row += self.before as usize + 1;
        }
        EvaluateError::Key { column: self.name.to_owned(), source }
    }

    fn cell(&self, row: usize, value: &str, expected: &'static str) -> EvaluateError {
        let (column, value) = (self.name.to_owned(), value.to_owned());
        EvaluateError::Cell { row: self.before + row as u64 + 1, column, value, expected }
    }

    fn other_type(&self, expected: &'static str) -> EvaluateError {
        let found = self.column.data_type().to_string();
        EvaluateError::Type { column: self.name.to_owned(), found, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date32Array, Float32Array, Int64Array, StringArray};
    use std::sync::Arc;

    fn cells(column: &ArrayRef) -> Cells<'_> {
        Cells { column, name: "c", before: 10 }
    }

    fn numbers(column: &ArrayRef) -> Result<Vec<f64>, String> {
        let mut found = Vec::new();
        let read = cells(column).numbers(&mut found);
        read.map(|()| found).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_missing_is_nan_and_what_is_no_number_is_refused() {
        let text = |cells: &[&str]| Arc::new(StringArray::from(cells.to_vec())) as ArrayRef;
        let found = numbers(&text(&["1.5", "", " NaN ", "null", "-2e3"])).unwrap();
        assert_eq!((found[0], found[4]), (1.5, -2000.0));
        assert!(found[1..4].iter().all(|number| number.is_nan()));
        let error = numbers(&text(&["1", "1,5"])).unwrap_err();
        assert_eq!(error, "row 12: column \"c\" holds \"1,5\"; expected a number");
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![Some(0.5), None]));
        let found = numbers(&floats).unwrap();
        assert!(found[0] == 0.5 && found[1].is_nan());
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![1]));
        assert_eq!(
            numbers(&dates).unwrap_err(),
            "column \"c\" is of type Date32; expected numbers"
        );
    }

    #[test]
    fn steps_are_whole_numbers() {
        let integers = |column: ArrayRef| {
            let mut found = Vec::new();
            cells(&column).integers(&mut found).map(|()| found).map_err(|error| error.to_string())
        };
        assert_eq!(integers(Arc::new(Int64Array::from(vec![1, -2]))), Ok(vec![1, -2]));
        assert_eq!(integers(Arc::new(StringArray::from(vec!["7"]))), Ok(vec![7]));
        let missing = Arc::new(Int64Array::from(vec![Some(1), None]));
        let error = integers(missing).unwrap_err();
        assert_eq!(error, "row 12: column \"c\" holds \"\"; expected a whole number");
        let error = integers(Arc::new(Float32Array::from(vec![1.0]))).unwrap_err();
        assert!(error.contains("Float32; expected whole numbers"), "{error}");
    }

    #[test]
    fn times_that_are_not_there_are_none() {
        let column: ArrayRef = Arc::new(StringArray::from(vec![Some("5"), None, Some("7")]));
        let mut found = Vec::new();
        assert_eq!(cells(&column).times(&mut found).unwrap(), Some(TimeKind::Integer));
        assert_eq!(found, [Some(5), None, Some(7)]);
        let column: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>; 2]));
        assert_eq!(cells(&column).times(&mut found).unwrap(), None);
        assert_eq!(found[3..], [None, None]);
        let column: ArrayRef = Arc::new(StringArray::from(vec!["5", "soon"]));
        let error = cells(&column).every_time(&mut Vec::new()).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.starts_with("row 12 holds \"soon\""), "{cause}");
    }
}
