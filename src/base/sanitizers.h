#pragma once

// Which sanitizers this is built for, as 0 or 1: g++ says it by macros, clang 19 by features.

#if defined(__has_feature)
#define WEFT_HAS_FEATURE(feature) __has_feature(feature)
#else
#define WEFT_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || WEFT_HAS_FEATURE(address_sanitizer)
#define WEFT_ADDRESS_SANITIZER 1
#else
#define WEFT_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || WEFT_HAS_FEATURE(thread_sanitizer)
#define WEFT_THREAD_SANITIZER 1
#else
#define WEFT_THREAD_SANITIZER 0
#endif

#undef WEFT_HAS_FEATURE
