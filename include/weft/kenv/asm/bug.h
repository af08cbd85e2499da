#pragma once

#include <linux/bug.h>
