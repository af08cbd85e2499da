#pragma once

// What a program of tests says on standard error, which is where WEFT_EXPLAIN=1 gives reasons.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string>

/// Standard error goes to memory while this lives.
class CapturedStderr {
 public:
  CapturedStderr() : before_(dup(STDERR_FILENO)), memory_(memfd_create("stderr", 0)) {
    std::fflush(stderr);
    EXPECT_GE(dup2(memory_, STDERR_FILENO), 0);
  }
  ~CapturedStderr() {
    std::fflush(stderr);
    dup2(before_, STDERR_FILENO);
    close(before_);
    close(memory_);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  [[nodiscard]] std::string text() const {
    std::fflush(stderr);
    std::string text(static_cast<std::size_t>(lseek(memory_, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(memory_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }

 private:
  int before_;
  int memory_;
};
