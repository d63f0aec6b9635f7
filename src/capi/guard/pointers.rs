//! The caller's pointers: checked for null and alignment, read and written as far as both sides know the struct.
//!
//! # What the caller answers for
//! A pointer that is neither null nor misaligned may still point nowhere; no library can see that. `platoon.h` says of every
//! pointer how many bytes it must point to and that nobody else writes them during the call. With that, the blocks here
//! are sound: they read or write no more than those bytes, and keep no reference to them after the call.

use super::layout::{Address, CStruct, Sized32, zeroed};
use crate::capi::status::{Failure, Status, remember};
use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call; its status. A failure is kept for the calling thread, a panic ends here.
pub(super) fn call(body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    // What a panic leaves behind is not used again: the session's lock is poisoned.
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return Status::Ok as i32,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(
            Status::Internal,
            format_args!("a bug of the library ended this call: close the engine, and report this"),
        ),
    };
    let status = failure.status;
    remember(failure);
    status as i32
}

fn check<T>(pointer: *const T, what: &'static str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::new(Status::Null, format_args!("{what} is null")));
    }
    if !pointer.is_aligned() {
        return Err(Failure::new(
            Status::Argument,
            format_args!("{what} is not aligned to {} bytes", align_of::<T>()),
        ));
    }
    Ok(())
}

/// The size in the struct's first field, if it is one that such a struct has had or may come to have.
fn size_at<T: Sized32>(pointer: *const T) -> Result<usize, Failure> {
    /// No struct grows beyond this.
    const MOST: usize = 1 << 16;
    // SAFETY: every such struct begins with this field, in all versions; the pointer was checked.
    let size = unsafe { pointer.cast::<u32>().read() } as usize;
    // A struct that grew ended, before, where a field begins now.
    let whole = size >= size_of::<T>() || T::FIELDS.iter().any(|(_, offset)| *offset == size);
    if (T::LEAST..=MOST).contains(&size) && whole {
        return Ok(size);
    }
    Err(Failure::new(
        Status::Size,
        format_args!("{}.size is {size}: set it to sizeof({}), {} here", T::NAME, T::NAME, size_of::<T>()),
    ))
}

/// The caller of an exported function. Whoever has one may read and write through the caller's pointers.
#[derive(Clone, Copy)]
pub(super) struct Caller(());

impl Caller {
    /// # Safety
    /// Every pointer that is given to the caller's methods is null, or points to what `platoon.h` says of it for as long as
    /// the exported function runs.
    pub(super) unsafe fn new() -> Caller {
        Caller(())
    }

    /// A struct that the caller made, of whatever age its header is: missing fields are zero, and what this library does
    /// not know must be zero.
    pub(super) fn read<T: Sized32>(self, pointer: *const T) -> Result<T, Failure> {
        check(pointer, T::NAME)?;
        let size = size_at(pointer)?;
        let known = size.min(size_of::<T>());
        // SAFETY: the caller's struct has `size` bytes, as its first field says.
        let newer = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>().add(known), size - known) };
        if newer.iter().any(|&b| b != 0) {
            return Err(Failure::new(
                Status::Size,
                format_args!(
                    "{} sets fields that this library does not know: it is older than the header",
                    T::NAME
                ),
            ));
        }
        let mut value: T = zeroed();
        // SAFETY: `known` bytes are within both structs; the trait says that the fields take any bytes.
        unsafe { std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut value).cast::<u8>(), known) };
        Ok(value)
    }

    /// A plain struct that the caller made.
    pub(super) fn read_plain<T: CStruct>(self, pointer: *const T) -> Result<T, Failure> {
        check(pointer, T::NAME)?;
        // SAFETY: the caller's struct never had another size; the trait says that the fields take any bytes.
        Ok(unsafe { pointer.read() })
    }

    /// `count` plain structs of the caller's, which may be null where there are none.
    pub(super) fn array<'a, T: CStruct>(self, pointer: *const T, count: u32, most: usize) -> Result<&'a [T], Failure> {
        if count == 0 {
            return Ok(&[]);
        }
        check(pointer, T::NAME)?;
        if count as usize > most {
            return Err(Failure::new(
                Status::Argument,
                format_args!("{count} entries of {}: at most {most} are taken", T::NAME),
            ));
        }
        // SAFETY: the caller has `count` of them, and nobody writes them during the call.
        Ok(unsafe { std::slice::from_raw_parts(pointer, count as usize) })
    }

    /// Bytes of the caller's.
    pub(super) fn bytes<'a>(self, address: Address<u8>, count: u64) -> Result<&'a [u8], Failure> {
        let count = usize::try_from(count).ok().filter(|&c| c <= isize::MAX as usize);
        let count = count.ok_or_else(|| Failure::new(Status::Argument, format_args!("no memory has that many bytes")))?;
        if count == 0 {
            return Ok(&[]);
        }
        check(address.0, "data")?;
        // SAFETY: the caller has `count` bytes there, and nobody writes them during the call.
        Ok(unsafe { std::slice::from_raw_parts(address.0, count) })
    }

    /// A text of the caller's, or `None` for null.
    pub(super) fn text<'a>(self, pointer: *const c_char, what: &'static str) -> Result<Option<&'a str>, Failure> {
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's text ends with a zero, and nobody writes it during the call.
        let text = unsafe { CStr::from_ptr(pointer) };
        let text = text.to_str();
        text.map(Some)
            .map_err(|_| Failure::new(Status::Argument, format_args!("{what} is not UTF-8")))
    }

    /// Where a single value goes; `what` is its name.
    pub(super) fn out<'a, T>(self, pointer: *mut T, what: &'static str) -> Result<Out<'a, T>, Failure> {
        check(pointer, what)?;
        let caller = PhantomData;
        Ok(Out { pointer, caller })
    }

    /// Where a struct with its size goes.
    pub(super) fn out_sized<'a, T: Sized32>(self, pointer: *mut T) -> Result<OutSized<'a, T>, Failure> {
        check(pointer, T::NAME)?;
        Ok(OutSized {
            pointer,
            size: size_at(pointer)?,
            caller: PhantomData,
        })
    }
}

/// Where a result goes: checked before anything is done, written when everything was.
pub(super) struct Out<'a, T> {
    pointer: *mut T,
    caller: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    /// Writes it.
    pub(super) fn set(self, value: T) {
        // SAFETY: checked for null and alignment; the caller gives room for a `T`.
        unsafe { self.pointer.write(value) };
    }
}

/// Where a struct with its size goes.
pub(super) struct OutSized<'a, T> {
    pointer: *mut T,
    size: usize,
    caller: PhantomData<&'a mut T>,
}

impl<T: Sized32> OutSized<'_, T> {
    /// Writes what the caller's header knows of the value, and zeros for what this library does not know; the struct's
    /// `size` stays the caller's.
    pub(super) fn set(self, value: T) {
        const SIZE: usize = size_of::<u32>();
        let known = self.size.min(size_of::<T>());
        let (from, to) = ((&raw const value).cast::<u8>(), self.pointer.cast::<u8>());
        // SAFETY: the caller's struct has `size` bytes; `known` of them are this one's too, and `known` is at least SIZE.
        unsafe {
            std::ptr::copy_nonoverlapping(from.add(SIZE), to.add(SIZE), known - SIZE);
            to.add(known).write_bytes(0, self.size - known);
        }
    }
}
