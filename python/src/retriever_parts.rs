//! A retriever's file as its configuration and tensors, for training elsewhere.

use crate::failure::{Failure, Kind};
use crate::query_batch::flat;
use far_memory::{Retriever, RetrieverConfig};
use numpy::ndarray::{ArrayD, IxDyn};
use numpy::{IntoPyArray, PyArrayDyn, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;

fn config_of(text: &str) -> Result<RetrieverConfig, Failure> {
    let config: RetrieverConfig = serde_json::from_str(text).map_err(|cause| {
        let hint = "far_memory.torch.Retriever(…).config shows one that fits";
        Failure::new(Kind::Retriever, format!("this is no configuration: {cause}"), hint)
    })?;
    config.check()?;
    Ok(config)
}

/// Names and shapes of the parameters that a configuration asks for.
#[pyfunction]
pub fn retriever_shapes(config: &str) -> PyResult<Vec<(String, Vec<usize>)>> {
    Ok(config_of(config)?.tensors())
}

/// The bytes of the file of a retriever with this configuration and these tensors.
#[pyfunction]
pub fn retriever_bytes<'py>(
    py: Python<'py>,
    config: &str,
    tensors: BTreeMap<String, PyReadonlyArrayDyn<'py, f32>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let config = config_of(config)?;
    let mut parameters = BTreeMap::new();
    for (name, array) in &tensors {
        let values = flat(array.as_slice(), "the numbers of a tensor")?;
        parameters.insert(name.clone(), (array.shape().to_vec(), values.to_vec()));
    }
    let retriever = Retriever::from_tensors(config, parameters).map_err(Failure::from)?;
    Ok(PyBytes::new(py, &retriever.to_bytes()))
}

/// A tensor's name and numbers.
type Named<'py> = (String, Bound<'py, PyArrayDyn<f32>>);

/// The configuration (JSON) and the tensors of a retriever's file.
#[pyfunction]
pub fn retriever_parts<'py>(py: Python<'py>, data: &[u8]) -> PyResult<(String, Vec<Named<'py>>)> {
    let retriever = Retriever::from_bytes(data).map_err(Failure::from)?;
    let config = serde_json::to_string(retriever.config()).expect("a configuration is plain data");
    let mut tensors = Vec::new();
    for (name, shape, values) in retriever.tensors() {
        let array = ArrayD::from_shape_vec(IxDyn(&shape), values.to_vec());
        let array = array.map_err(|error| Failure::input(error.to_string(), "report this"))?;
        tensors.push((name, array.into_pyarray(py)));
    }
    Ok((config, tensors))
}
