#pragma once

// Checks of what a programmer has promised (docs/STYLE.md, "Errors"). A promise that does not hold
// is a mistake of this program, never of a peer or a user, and there is no way on from it. Any
// thread.

#include <cstddef>
#include <string_view>

namespace weft {

/// A source below the checkout's root, as `src/hca/qp.cc`, whatever the compiler was given.
class SourceName {
 public:
  static constexpr std::size_t kMaxBytes = 96;

  consteval explicit SourceName(std::string_view path) {
    std::size_t from = 0;
    for (const std::string_view top : {std::string_view{"src/"}, std::string_view{"tests/"}}) {
      for (std::size_t at = path.find(top); at != path.npos; at = path.find(top, at + 1)) {
        from = at != 0 && path[at - 1] == '/' && at > from ? at : from;
      }
    }
    path.substr(from).copy(text_, kMaxBytes - 1);
  }
  [[nodiscard]] constexpr const char* text() const { return text_; }

 private:
  char text_[kMaxBytes]{};
};

/// Says what was promised where, and why it has to hold; then aborts.
[[noreturn, gnu::cold]] void assertion_failed(const char* condition, const SourceName& source,
                                              int line, const char* reason);

}  // namespace weft

/// On in every build. The reason says why the condition holds, or who has to see to it.
#define WEFT_ASSERT(condition, reason) \
  ((condition)                         \
       ? static_cast<void>(0)          \
       : ::weft::assertion_failed(#condition, ::weft::SourceName{__FILE__}, __LINE__, reason))

/// The same where it would cost: once for each packet. Silent, and not evaluated, in release
/// builds.
#ifdef NDEBUG
#define WEFT_DEBUG_ASSERT(condition, reason) static_cast<void>(sizeof((condition) ? 1 : 0))
#else
#define WEFT_DEBUG_ASSERT(condition, reason) WEFT_ASSERT(condition, reason)
#endif
