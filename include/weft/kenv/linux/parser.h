#pragma once

/* Options of mounts and of configuration: texts that match patterns. */

#include <linux/string.h>
#include <linux/types.h>

#define MAX_OPT_ARGS 3

/* A pattern has %s, %d, %u, %x or %o where an argument stands. */
struct match_token {
	int token;
	const char *pattern;
};

#ifdef __cplusplus
typedef struct match_token match_token_row; /* the name is a function's, too */
#endif
typedef struct match_token match_table_t[];

typedef struct {
	char *from;
	char *to;
} substring_t;

WEFT_KENV_BEGIN
/* The token of the first pattern that the whole text matches; the last entry's pattern is NULL. */
int match_token(char *text, const match_table_t table, substring_t arguments[]);
int match_int(substring_t *argument, int *to);
char *match_strdup(const substring_t *argument);
size_t match_strlcpy(char *to, const substring_t *argument, size_t size);
WEFT_KENV_END
