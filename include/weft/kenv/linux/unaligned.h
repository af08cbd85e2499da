#pragma once

#include <asm/unaligned.h>
