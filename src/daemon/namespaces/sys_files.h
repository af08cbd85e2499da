#pragma once

// The files of a host's /sys/class, written from outside through the descriptor of that folder.
// Each is replaced as a whole, so that a reader sees either the old content or the new one; what is
// only known when it is read stays the same file, whose keeper writes it in place (LiveFiles).

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "host_view/sysfs.h"
#include "os/unique_fd.h"

namespace weft::daemon {

class SysFiles {
 public:
  /// `folder` is the host's /sys/class, in which nobody else makes these files.
  explicit SysFiles(os::UniqueFd folder) : folder_(std::move(folder)) {}

  /// What to do with files whose content is only known when they are read.
  enum class Counters : std::uint8_t { Leave, Write };

  /// Writes what differs from the last time. With Leave, the tree need not have counters. Io: the
  /// first file that could not be written; the others are.
  [[nodiscard]] Result<void> show(const host_view::SysTree& tree, Counters counters);

  struct LiveFile {
    std::string path;  ///< as in SysTree
    os::UniqueFd file;
  };
  /// Opens the files that are known when read, for somebody who keeps them from now on: show() does
  /// not touch them again.
  [[nodiscard]] std::vector<LiveFile> open_live_files();
  /// The keeper could not: show() writes it again.
  void take_back(const std::string& path) { kept_elsewhere_.erase(path); }
  /// Whether there are files known when read that nobody keeps.
  [[nodiscard]] bool has_unkept_files() const { return kept_elsewhere_.size() < live_.size(); }

 private:
  [[nodiscard]] Result<void> write(const host_view::SysFile& file);
  void remove_what_is_not_in(const host_view::SysTree& tree, Counters counters);

  os::UniqueFd folder_;
  std::set<std::string> folders_;
  std::map<std::string, std::string> contents_;  // of each file, as shown
  std::map<std::string, std::string> links_;
  std::set<std::string> live_;  // paths of files known when read
  std::set<std::string> kept_elsewhere_;
};

}  // namespace weft::daemon
