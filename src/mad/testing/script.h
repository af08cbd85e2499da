#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>

/// For fuzzers: an input that is read from its front; zeros follow its end.
namespace weft::mad {

inline void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

class Script {
 public:
  explicit Script(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool is_over() const { return bytes_.empty(); }
  std::uint8_t next() {
    if (bytes_.empty()) {
      return 0;
    }
    const std::uint8_t octet = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return octet;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace weft::mad
