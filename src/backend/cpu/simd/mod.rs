//! Vector kernels, one source for every instruction set, the same bits on all of them.
