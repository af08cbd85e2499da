#include "daemon/umad/is_sm_files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace weft::daemon {

using asio::posix::stream_descriptor;

IsSmFiles::IsSmFiles(asio::io_context& loop, Handler on_change)
    : loop_(loop), on_change_(std::move(on_change)), openings_(loop), renewal_(loop) {}

Result<void> IsSmFiles::watch(fabric::PortIndex port, const std::string& path) {
  if (!openings_.is_open()) {
    const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0) {
      return fail(ErrorCode::Io, "inotify: {}", std::strerror(errno));
    }
    openings_.assign(fd);
    wait_for_openings();
  }
  for (const auto& [watch, file] : files_) {
    if (file.port == port) {
      return {};
    }
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path{path}.parent_path(), error);
  if (std::filesystem::is_regular_file(path)) {  // left over from a killed daemon
    std::filesystem::remove(path, error);
  }
  if (error || (mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST)) {
    return fail(ErrorCode::Io, "{}: {}", path, error ? error.message() : std::strerror(errno));
  }
  const int number = inotify_add_watch(openings_.native_handle(), path.c_str(), IN_OPEN);
  if (number < 0) {
    return fail(ErrorCode::Io, "{}: {}", path, std::strerror(errno));
  }
  files_[number] = File{.port = port, .path = path, .held = {}, .placeholder = {}};
  return {};
}

bool IsSmFiles::is_held(fabric::PortIndex port) const {
  return std::ranges::any_of(files_, [port](const auto& entry) {
    return entry.second.port == port && entry.second.held != nullptr;
  });
}

void IsSmFiles::wait_for_openings() {
  openings_.async_wait(stream_descriptor::wait_read, [this](const std::error_code& error) {
    if (error) {
      return;
    }
    // Events carry no names, because files are watched and not directories.
    std::array<inotify_event, 64> events{};
    const ssize_t bytes = read(openings_.native_handle(), events.data(), sizeof events);
    const std::size_t count =
        bytes < 0 ? 0 : static_cast<std::size_t>(bytes) / sizeof(inotify_event);
    for (std::size_t i = 0; i < count; ++i) {
      if (const auto found = files_.find(events.at(i).wd); found != files_.end()) {
        refresh(found->second);
      }
    }
    wait_for_openings();
  });
}

/// Opening a FIFO for writing without blocking succeeds only while it has a reader. Our own opening
/// also causes an event, which finds the FIFO already held.
void IsSmFiles::refresh(File& file) {
  if (file.held) {
    return;
  }
  const int fd = open(file.path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return;
  }
  file.held = std::make_unique<stream_descriptor>(loop_, fd);
  install_placeholder(file);
  on_change_(file.port);
  wait_for_end(file);
}

void IsSmFiles::wait_for_end(File& file) {
  file.held->async_wait(stream_descriptor::wait_error, [this, &file](const std::error_code& error) {
    if (error) {
      return;
    }
    pollfd now{.fd = file.held->native_handle(), .events = 0, .revents = 0};
    if (poll(&now, 1, 0) == 0 || (now.revents & POLLERR) == 0) {
      return wait_for_end(file);  // another reader opened it before the last one closed it
    }
    file.held.reset();
    remove_placeholder(file);
    on_change_(file.port);
    refresh(file);
  });
}

/// Replaces the path by a file with a lease while the FIFO has a reader: a second subnet manager
/// gets EAGAIN, as from the kernel, or blocks if it did not use O_NONBLOCK. On file systems without
/// leases the FIFO stays in place, and a second reader is not refused.
void IsSmFiles::install_placeholder(File& file) {
  const std::string fifo = file.path + ".fifo";
  const std::string made = file.path + ".new";
  std::error_code ignored;
  std::filesystem::remove(made, ignored);
  if (!file.placeholder) {
    std::filesystem::remove(fifo, ignored);
    std::filesystem::create_hard_link(file.path, fifo, ignored);
  }
  os::UniqueFd placeholder{open(made.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  // Nobody is told by a signal that the lease is being broken.
  if (ignored || !placeholder || fcntl(placeholder.get(), F_SETLEASE, F_WRLCK) != 0 ||
      fcntl(placeholder.get(), F_SETOWN, 0) != 0 || rename(made.c_str(), file.path.c_str()) != 0) {
    std::filesystem::remove(made, ignored);
    return;
  }
  file.placeholder = std::move(placeholder);
  renew_placeholders();
}

void IsSmFiles::remove_placeholder(File& file) {
  if (file.placeholder) {
    std::error_code ignored;
    std::filesystem::rename(file.path + ".fifo", file.path, ignored);
    file.placeholder.reset();
  }
}

/// A broken lease ends after /proc/sys/fs/lease-break-time, so it is renewed periodically.
void IsSmFiles::renew_placeholders() {
  constexpr std::chrono::seconds kEvery{10};  // policy: the kernel's default break time is 45 s
  renewal_.expires_after(kEvery);
  renewal_.async_wait([this](const std::error_code& error) {
    if (error) {
      return;
    }
    bool has_any = false;
    for (auto& [watch, file] : files_) {
      has_any = has_any || static_cast<bool>(file.placeholder);
      if (file.placeholder && fcntl(file.placeholder.get(), F_GETLEASE) != F_WRLCK) {
        install_placeholder(file);
      }
    }
    if (has_any) {
      renew_placeholders();
    }
  });
}

}  // namespace weft::daemon
