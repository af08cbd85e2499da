#pragma once

// A file that takes lines and answers each, as those of sysfs do: what is written reaches a handler
// whole, and the call that writes returns what the handler says. It is a FUSE file system of one
// file, without a library: the kernel's protocol of <linux/fuse.h>, as far as such a file has it.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::programs::srp {

/// What was written; 0, or the error number that the writer gets.
using WriteHandler = std::function<int(std::string_view)>;

/// The kernel's requests and their answers. Pure.
class WrittenFileProtocol {
 public:
  /// Policy: as sysfs, no write is longer than a page.
  static constexpr std::size_t kMostBytes = 4096;

  explicit WrittenFileProtocol(WriteHandler handler) : handler_(std::move(handler)) {}
  /// Of one request; nothing where the kernel awaits none, or it is cut off.
  [[nodiscard]] std::optional<std::vector<std::byte>> answer(ByteSpan request) const;

 private:
  WriteHandler handler_;
};

/// The file, until its end.
class WrittenFile {
 public:
  /// Mounted over the file at `path`, which is made. PermissionDenied, Io: the reason says what
  /// would allow it.
  [[nodiscard]] static Result<std::unique_ptr<WrittenFile>> mount(const std::string& path,
                                                                  WriteHandler handler);
  /// Who still writes gets ECONNABORTED.
  ~WrittenFile();
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Answers, in the thread that calls, until stop() or until somebody unmounts it.
  void serve();
  /// Any thread; what the handler is at goes to its end.
  void stop();
  /// What one that was killed has left at a path.
  static void unmount(const std::string& path);

 private:
  WrittenFile(std::string path, os::UniqueFd fd, os::UniqueFd stop, WriteHandler handler)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        stop_(std::move(stop)),
        protocol_(std::move(handler)) {}

  const std::string path_;
  os::UniqueFd fd_;
  const os::UniqueFd stop_;  // an eventfd
  const WrittenFileProtocol protocol_;
};

}  // namespace weft::programs::srp
