"""Loop IR and a plan to machine code: one builder of LLVM IR, a small part per target."""
