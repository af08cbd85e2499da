#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "scsi/logical_unit.h"

namespace weft::programs::iscsi {

/// What is kept of a SANITIZE of a disk in a file: a file beside it, of the same name and
/// ".sanitize". It is written anew and renamed, so that it is there as a whole or not at all.
class SanitizeFile final : public scsi::SanitizeStore {
 public:
  explicit SanitizeFile(const std::string& disk) : path_(disk + ".sanitize") {}
  /// Null: `disk` is no regular file, but in memory, or a device, which has no place beside it that
  /// stays.
  [[nodiscard]] static std::unique_ptr<SanitizeFile> of_disk(const std::string& disk);

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Empty: nothing is kept. Io: it cannot be read, or is larger than it can be.
  [[nodiscard]] Result<std::vector<std::byte>> load() const;
  /// Takes up what is kept.
  Result<void> restore(scsi::LogicalUnit& unit) const;
  void save(std::vector<std::byte> image, std::function<void(bool)> done) override;

 private:
  std::string path_;
};

}  // namespace weft::programs::iscsi
