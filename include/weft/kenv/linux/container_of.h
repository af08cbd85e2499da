#pragma once

#include <stddef.h>

#ifndef container_of
#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer) - offsetof(type, member)))
#endif
