#pragma once

// Memory of this end that a program has mapped into a stream (riomap(3)): at an offset, and if the
// other end is to write to it, as an entry of the other end's map. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ulp/rsocket/stream_protocol.h"

namespace weft::rsockets {

class IoMap {
 public:
  struct Mapping {
    std::uint64_t offset{};
    std::uint64_t address{};
    std::uint32_t key{};  ///< its R_Key
    std::uint32_t length{};
    std::optional<std::uint32_t> index;  ///< in the other end's map; none: it is only local
    bool is_told{};
  };

  /// The other end has room for so many.
  void set_entries(std::uint32_t entries) { entries_ = entries; }

  /// Where the next one goes; nothing: the other end's map is full.
  [[nodiscard]] std::optional<std::uint32_t> free_index() const;
  /// `mapping.index` says whether the other end is to hear of it.
  void add(Mapping mapping);
  /// Forgets it; false: no such memory is mapped.
  [[nodiscard]] bool remove(std::uint64_t address, std::uint32_t length);

  [[nodiscard]] bool has_untold() const;
  /// The next one that the other end does not know, which counts as told now. There is one.
  [[nodiscard]] Mapping tell_next();

 private:
  std::uint32_t entries_{};
  std::vector<Mapping> mappings_;
};

}  // namespace weft::rsockets
