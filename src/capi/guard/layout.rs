//! How structs of the C ABI are declared, so that their layout can be compared with the header's.

use std::ffi::CStr;

/// An address that is handed out or was taken in. Here it is a number; who dereferences it says why that is sound.
#[repr(transparent)]
#[derive(Debug)]
pub struct Address<T>(pub(super) *const T);

// SAFETY: without dereferencing it, an address is a number.
unsafe impl<T> Send for Address<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Address<T> {}

impl<T> Clone for Address<T> {
    fn clone(&self) -> Address<T> {
        *self
    }
}

impl<T> Copy for Address<T> {}

impl<T> Address<T> {
    /// No address.
    pub const NULL: Address<T> = Address(std::ptr::null());

    /// Where the slice begins; null for an empty one.
    pub fn of(slice: &[T]) -> Address<T> {
        if slice.is_empty() { Address::NULL } else { Address(slice.as_ptr()) }
    }

    /// True for no address.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address as C writes it.
    pub fn raw(self) -> *const T {
        self.0
    }
}

impl Address<std::ffi::c_char> {
    /// Where the text begins.
    pub fn text(text: &CStr) -> Self {
        Address(text.as_ptr())
    }
}

/// A struct of the C ABI.
///
/// # Safety
/// All-zero bytes are a value of it, and so are any bytes that C wrote into its fields.
pub unsafe trait CStruct: Copy + 'static {
    /// Its name in C.
    const NAME: &'static str;
    /// Its fields and their offsets.
    const FIELDS: &'static [(&'static str, usize)];
}

/// A struct that begins with its own size, so that it can grow at its end.
///
/// # Safety
/// Its first field is the `u32` named `size`.
pub unsafe trait Sized32: CStruct {
    /// Bytes it had when it first came: no caller knows fewer.
    const LEAST: usize;
}

/// Name, size and fields with their offsets of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its name in C.
    pub name: &'static str,
    /// Its bytes.
    pub size: usize,
    /// Its fields and their offsets.
    pub fields: &'static [(&'static str, usize)],
}

pub(super) const fn layout<T: CStruct>() -> Layout {
    Layout {
        name: T::NAME,
        size: size_of::<T>(),
        fields: T::FIELDS,
    }
}

/// The bytes of the field that `get` gives.
pub(super) const fn field_bytes<T, F>(_get: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! c_structs {
    (@sized plain $name:ident) => {};
    (@sized sized $name:ident $last:ident) => {
        // SAFETY: the declarations begin with `size`; the test of the layout holds them to it.
        unsafe impl $crate::capi::guard::layout::Sized32 for $name {
            const LEAST: usize = std::mem::offset_of!($name, $last)
                + $crate::capi::guard::layout::field_bytes(|s: &$name| &s.$last);
        }
    };
    ($($(#[$doc:meta])* $how:ident $c:literal $name:ident $(since $last:ident)? {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            // SAFETY: integers, floats, addresses and optional functions: each of them may be zero, and any bits that C
            // writes into such a field are a value of it.
            unsafe impl $crate::capi::guard::layout::CStruct for $name {
                const NAME: &'static str = $c;
                const FIELDS: &'static [(&'static str, usize)] = &[$((stringify!($field), std::mem::offset_of!($name, $field)),)*];
            }

            impl Default for $name {
                fn default() -> $name {
                    $crate::capi::guard::layout::zeroed()
                }
            }

            $crate::capi::guard::layout::c_structs!(@sized $how $name $($last)?);
        )*

        /// All structs of the header.
        pub const LAYOUTS: &[$crate::capi::guard::layout::Layout] = &[$($crate::capi::guard::layout::layout::<$name>(),)*];
    };
}

pub(super) use c_structs;

/// The value whose bytes are all zero.
pub(super) fn zeroed<T: CStruct>() -> T {
    // SAFETY: the trait says that zeros are a value.
    unsafe { std::mem::zeroed() }
}
