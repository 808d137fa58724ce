package b // want `0 long lines are left here`
