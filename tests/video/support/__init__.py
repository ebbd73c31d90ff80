"""What the tests of video share: clips of many kinds, how they are opened, and a full sequential decode to compare with."""
