#include "daemon/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

namespace weft::daemon {
namespace {

[[nodiscard]] std::string time_of_day() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string{text.data(), size};
}

}  // namespace

Log::Log(std::string path)
    : path_(std::move(path)),
      file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  struct stat status{};
  if (file_ && fstat(file_.get(), &status) == 0) {
    bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
}

void Log::write(std::string_view line) {
  if (!file_ || bytes_ >= kMaxBytes) {
    return;
  }
  std::string text = fmt::format("{} {}", time_of_day(), line);
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  text += '\n';
  bytes_ += text.size();
  if (bytes_ >= kMaxBytes) {
    text += "the log is full; nothing more is written\n";
  }
  static_cast<void>(!::write(file_.get(), text.data(), text.size()));
}

}  // namespace weft::daemon
