#pragma once

// Mode parameters of a disk (SPC-4 §7.5, SBC-3 §6.4): control and caching pages, current,
// changeable and default values. Nothing is saved.

#include <cstdint>

#include "scsi/big_endian.h"
#include "scsi/sense.h"

namespace weft::scsi {

/// What initiators may change.
struct ModeValues {
  bool write_cache{};             ///< WCE
  bool descriptor_sense{};        ///< D_SENSE
  bool task_aborted_status{};     ///< TAS
  bool software_write_protect{};  ///< SWP
  std::uint8_t queue_error{};     ///< QERR: 00b, 01b or 11b
  bool operator==(const ModeValues&) const = default;
};

/// What the device says, for the header of mode parameter data.
struct ModeFacts {
  bool read_only{};
  std::uint64_t blocks{};
  std::uint32_t block_bytes{};
  bool protection_tags_kept{};  ///< ATO
};

/// PAGE CONTROL of MODE SENSE.
enum class PageControl : std::uint8_t { Current, Changeable, Default, Saved };

struct ModeSenseRequest {
  bool ten{};             ///< MODE SENSE(10), else (6)
  bool long_lba{};        ///< LLBAA
  bool no_descriptors{};  ///< DBD
  PageControl control{};
  std::uint8_t page{};
  std::uint8_t subpage{};
};

/// The caller locks.
class ModePages {
 public:
  explicit ModePages(const ModeValues& defaults) : defaults_(defaults), values_(defaults) {}

  [[nodiscard]] const ModeValues& values() const { return values_; }
  void reset() { values_ = defaults_; }

  /// Parameter data as a whole; the command truncates it.
  [[nodiscard]] Outcome<ParameterData> sense(const ModeSenseRequest& request,
                                             const ModeFacts& facts) const;
  /// Applies a parameter list, all or nothing. True if a value changed.
  Outcome<bool> select(bool ten, ByteSpan parameters, const ModeFacts& facts);

 private:
  ModeValues defaults_;
  ModeValues values_;
};

}  // namespace weft::scsi
