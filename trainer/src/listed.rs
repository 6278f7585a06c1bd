//! One line for each thing of a kind: what is behind the lists of optimizers, schedules and losses.

/// Makes of a list, a line each, its modules, the enum by which the settings choose, and the way from
/// there to what the module has: a value of the variant's name that implements the trait. The first
/// is the default; in the settings each is called as its file.
macro_rules! listed {
    (
        $(#[$about_all:meta])*
        $Kind:ident: $Trait:ident;
        $($module:ident::$Name:ident, $about:literal;)+
    ) => {
        $(mod $module;)+

        $(#[$about_all])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $Kind {
            $(#[doc = $about] $Name,)+
        }

        impl $Kind {
            /// All of them, the default first.
            pub const ALL: &[$Kind] = &[$($Kind::$Name),+];

            /// What its file has.
            pub(crate) fn listed(self) -> &'static dyn $Trait {
                match self {
                    $($Kind::$Name => &$module::$Name,)+
                }
            }
        }

        impl Default for $Kind {
            fn default() -> Self {
                $Kind::ALL[0]
            }
        }
    };
}

pub(crate) use listed;
