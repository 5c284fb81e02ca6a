//! Settings: each field stands beside its default.

/// Declares a struct of settings, with the default beside each field.
///
/// As text, settings left out have their defaults, and an unknown name is an error.
///
/// ```
/// far_memory::settings! {
///     /// How to look.
///     pub struct Look {
///         /// How far, in meters.
///         pub reach: f32 = 8.0,
///     }
/// }
/// assert_eq!(Look::default().reach, 8.0);
/// assert!(serde_json::from_str::<Look>(r#"{ "raech": 2.0 }"#).is_err());
/// ```
#[macro_export]
macro_rules! settings {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident {
        $($(#[$of_field:meta])* $field_visibility:vis $field:ident: $kind:ty = $default:expr,)+
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        $visibility struct $name {
            $($(#[$of_field])* $field_visibility $field: $kind,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}
