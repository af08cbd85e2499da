#pragma once

#include <string.h>

#include <linux/types.h>

WEFT_KENV_BEGIN
/* Copies with an end, always; the length, or -E2BIG if `from` was cut. */
ssize_t strscpy(char *to, const char *from, size_t size);
/* Skips and cuts white space. */
char *skip_spaces(const char *text);
char *strim(char *text);
bool sysfs_streq(const char *a, const char *b);
/* The first byte that is not `c`; NULL: all are. */
void *memchr_inv(const void *from, int c, size_t size);
int match_string(const char *const *texts, size_t count, const char *text);
char *kstrdup(const char *text, gfp_t flags);
char *kstrndup(const char *text, size_t most, gfp_t flags);
void *kmemdup(const void *from, size_t size, gfp_t flags);
char *kasprintf(gfp_t flags, const char *format, ...) __printf(2, 3);
WEFT_KENV_END

#define kbasename(path) (strrchr(path, '/') ? strrchr(path, '/') + 1 : (path))
#define memzero_explicit(p, size) memset(p, 0, size)
