//! The Parquet files: the rows of the CSV file, typed, with the head as key-value metadata. Uncompressed,
//! so that every tool reads them; they are small.

use std::sync::Arc;

use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;

use super::csv::Head;
use crate::figure::{Sweep, Value};
use crate::table::Record;

/// Encodes a sweep.
pub fn encode(sweep: &Sweep, head: &Head, records: &[Record]) -> Result<Vec<u8>> {
    let is_named = |axis: &crate::figure::Axis| matches!(axis.values.first(), Some(Value::Name(_)));
    let mut schema = String::from("message runs {\n");
    for axis in sweep.axes {
        let kind = if is_named(axis) { "BYTE_ARRAY" } else { "DOUBLE" };
        let text = if is_named(axis) { " (UTF8)" } else { "" };
        schema.push_str(&format!("REQUIRED {kind} {}{text};\n", axis.name));
    }
    schema.push_str("REQUIRED INT32 run;\nREQUIRED INT64 seed (INTEGER(64,false));\n");
    for column in sweep.columns {
        schema.push_str(&format!("REQUIRED DOUBLE {};\n", column.name));
    }
    schema.push('}');
    let schema = Arc::new(parse_message_type(&schema)?);
    let metadata = head.lines.iter().map(|(name, says)| KeyValue::new(name.clone(), says.clone())).collect();
    let properties = WriterProperties::builder().set_key_value_metadata(Some(metadata)).build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties))?;
    let points = sweep.points();
    let mut group = file.next_row_group()?;
    for (place, axis) in sweep.axes.iter().enumerate() {
        let values = records.iter().map(|record| points[record.point].places()[place].1);
        if is_named(axis) {
            let texts: Vec<ByteArray> =
                values.map(|value| ByteArray::from(value.to_string().into_bytes())).collect();
            column::<ByteArrayType>(&mut group, &texts)?;
        } else {
            let numbers: Vec<f64> = values
                .map(|value| match value {
                    Value::Number(number) => number,
                    Value::Name(_) => f64::NAN,
                })
                .collect();
            column::<DoubleType>(&mut group, &numbers)?;
        }
    }
    column::<Int32Type>(&mut group, &records.iter().map(|record| record.run as i32).collect::<Vec<_>>())?;
    column::<Int64Type>(&mut group, &records.iter().map(|record| record.seed as i64).collect::<Vec<_>>())?;
    for place in 0..sweep.columns.len() {
        column::<DoubleType>(
            &mut group,
            &records.iter().map(|record| record.numbers[place]).collect::<Vec<_>>(),
        )?;
    }
    group.close()?;
    file.close()?;
    Ok(bytes)
}

fn column<T: ::parquet::data_type::DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[T::T],
) -> Result<()> {
    let mut writer = group.next_column()?.expect("the schema has as many columns as are written");
    writer.typed::<T>().write_batch(values, None, None)?;
    writer.close()
}
