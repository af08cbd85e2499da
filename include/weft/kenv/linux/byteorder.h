#pragma once

#include <asm/byteorder.h>
