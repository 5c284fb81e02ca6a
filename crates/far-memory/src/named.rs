//! Enums whose variants have names: each stands beside its variant.

/// Declares an enum whose variants have names in files and on the command line.
///
/// ```
/// far_memory::named! {
///     /// A time of day.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Time {
///         /// The sun is up.
///         Day = "day",
///         /// It is not.
///         Night = "night",
///     }
/// }
/// assert_eq!(Time::from_name("night"), Some(Time::Night));
/// assert_eq!(Time::ALL.map(Time::name), ["day", "night"]);
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$attribute:meta])* $visibility:vis enum $kind:ident {
        $($(#[$of_variant:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$attribute])*
        $visibility enum $kind {
            $($(#[$of_variant])* $variant,)+
        }

        impl $kind {
            /// All of them, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in files and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The one of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}
