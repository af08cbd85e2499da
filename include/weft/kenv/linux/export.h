#pragma once

/* What a module exports is whatever it does not make static. */
#define EXPORT_SYMBOL(name) extern int weft_kenv_nothing
#define EXPORT_SYMBOL_GPL(name) EXPORT_SYMBOL(name)
