#include "daemon/namespaces/live_files.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace weft::daemon {

using asio::posix::stream_descriptor;

namespace {

// Policy: how soon a file is written and leased anew after its reader has opened it, and how often
// while it stays open.
constexpr std::chrono::milliseconds kShortest{1};
constexpr std::chrono::milliseconds kLongest{64};

/// Policy: half of all descriptors, since programs need theirs.
[[nodiscard]] std::size_t most_files() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 0;
}

}  // namespace

LiveFiles::LiveFiles(asio::io_context& loop, Contents contents)
    : contents_(std::move(contents)), openers_(loop), retry_(loop) {}

Result<void> LiveFiles::keep(Owner owner, std::string path, os::UniqueFd file) {
  if (files_.size() >= most_files()) {
    return fail(ErrorCode::OutOfMemory, "half of all descriptors are files of counters already");
  }
  if (!keeper_) {
    auto keeper = os::LeaseKeeper::create();
    if (!keeper) {
      return std::unexpected(std::move(keeper.error()));
    }
    keeper_ = std::move(*keeper);
    openers_.assign(dup(keeper_->fd()));
    wait_for_openers();
  }
  const int fd = file.get();
  const auto leased = keeper_->take(fd);
  if (!leased && leased.error().code != ErrorCode::TryAgain) {
    return leased;
  }
  files_[fd] = {.owner = owner, .path = std::move(path), .content = {}, .file = std::move(file)};
  if (!leased) {
    open_.insert(fd);
    lease_again_soon();
  }
  return {};
}

void LiveFiles::forget(Owner owner) {
  std::erase_if(files_, [&](const auto& entry) {
    if (entry.second.owner == owner) {
      open_.erase(entry.first);
      return true;
    }
    return false;
  });
}

void LiveFiles::wait_for_openers() {
  openers_.async_wait(stream_descriptor::wait_read, [this](const std::error_code& error) {
    if (!error) {
      serve_openers();
      wait_for_openers();
    }
  });
}

void LiveFiles::serve_openers() {
  const os::LeaseKeeper::Breaks breaks = keeper_->take_breaks();
  std::set<int> files;
  for (const int fd : breaks.files) {
    if (files_.contains(fd)) {  // not one that was closed since
      files.insert(fd);
    }
  }
  if (breaks.is_incomplete) {
    for (const auto& [fd, file] : files_) {
      if (!open_.contains(fd) && os::LeaseKeeper::is_breaking(fd)) {
        files.insert(fd);
      }
    }
  }
  if (files.empty()) {
    return;
  }
  write(files);
  for (const int fd : files) {
    os::LeaseKeeper::release(fd);
    open_.insert(fd);
  }
  pause_ = {};
  lease_again_soon();
}

/// Writes what has changed; all at one moment.
void LiveFiles::write(const std::set<int>& which) {
  std::map<Owner, std::map<std::string, std::string>> contents;
  for (const int fd : which) {
    File& file = files_.at(fd);
    if (!contents.contains(file.owner)) {
      contents[file.owner] = contents_(file.owner);
    }
    const auto& of_owner = contents.at(file.owner);
    const auto found = of_owner.find(file.path);
    if (found == of_owner.end() || found->second == file.content) {
      continue;
    }
    const std::string& text = found->second;
    const auto bytes = static_cast<ssize_t>(text.size());
    if (pwrite(fd, text.data(), text.size(), 0) == bytes && ftruncate(fd, bytes) == 0) {
      file.content = text;
    }
  }
}

void LiveFiles::lease_again_soon() {
  pause_ = std::clamp(pause_ * 2, kShortest, kLongest);
  retry_.expires_after(pause_);
  retry_.async_wait([this](const std::error_code& error) {
    if (!error) {
      lease_again();
    }
  });
}

void LiveFiles::lease_again() {
  // Leases first: who opens such a file from then on is told what is so from then on.
  std::erase_if(open_, [this](int fd) { return keeper_->take(fd).has_value(); });
  write(open_);
  if (!open_.empty()) {
    lease_again_soon();
  }
}

}  // namespace weft::daemon
